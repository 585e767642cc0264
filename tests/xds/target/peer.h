// A client made by hand: sends what messages it likes to a target in this process.
#pragma once

#include "tests/xds/client/fixture.h"
#include "tests/xds/transport/place.h"
#include "xds/security/capability.h"

namespace fabric::xds {

using transport::Arrived;

class Peer {
  public:
    explicit Peer(int port);
    // Sends a hello; the answer's text, or the error it came to.
    Arrived greet(const security::Keyring* keys = nullptr, const security::Ticket* ticket = nullptr);
    // Sends a request and takes the next message.
    Arrived ask(const wire::Body& body, const std::string& data = {});
    // Opens by path; its handle.
    uint32_t open(const std::string& path, uint32_t flags = wire::open_flags::read);

    std::unique_ptr<transport::Side> side;
    std::unique_ptr<transport::Endpoint> end;
    wire::Hello hello;  // as it was sent
};

// The value of `name` in a printed message; fails the test when it is not there.
uint64_t number(const Arrived& message, const std::string& name);
std::string text(const Arrived& message, const std::string& name);
// A printed error's errno; 0: not an error.
int error_of(const Arrived& message);

}  // namespace fabric::xds
