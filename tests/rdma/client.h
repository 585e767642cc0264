// A well-behaved NFS client on a Connection, with a say in how each call uses chunks. Scenarios use it to set the
// stage, and to see that the server still gives right answers.
#pragma once

#include <optional>
#include <string>

#include "tests/rdma/connection.h"
#include "tests/rdma/header.h"
#include "tests/rdma/nfs.h"

namespace rogue {

struct ServerOptions {
    Endpoint rdma;
    std::string mount_port;
    std::string path = "/export";
    int pid = 0;  // of the server, when it runs on this machine: for its memory
    milliseconds patience{30'000};
};

/// An answer to a call: what was received, and the RPC message wherever it came.
struct Answer {
    Received received;
    Bytes message;  // inline, or from the reply chunk
};

class Client {
  public:
    explicit Client(const ServerOptions& server, const ConnectionOptions& options = {});

    Connection& connection() { return connection_; }
    uint32_t next_xid() { return ++xid_; }
    const Bytes& root() const { return root_; }

    /// Sends a message with this header (its xid is taken from the message) and waits for the answer.
    Answer call(Header header, const Encoder& message);
    /// Sends only.
    void send(Header header, const Encoder& message);
    /// The next answer, to whatever call.
    Answer receive();

    Bytes create(std::string_view name);
    /// By a read chunk, through memory at `at`.
    void write(std::span<const uint8_t> handle, uint64_t offset, std::span<const uint8_t> data, size_t at = 0);
    /// By a write chunk, through memory at `at`.
    Bytes read(std::span<const uint8_t> handle, uint64_t offset, uint32_t count, size_t at = 0);
    void null();

  private:
    ServerOptions server_;
    Connection connection_;
    Bytes root_;
    uint32_t xid_;
};

/// Bytes that depend on the seed and on their place, so that a mixture shows.
Bytes pattern(uint32_t seed, size_t size);

/// A new connection works, and an old file's bytes are as they were: the server lives and is right.
void check_alive(const ServerOptions& server);

}  // namespace rogue
