// Where tests run: over loopback TCP, or, with XDS_TEST_RDMA set to the address of an RDMA device, over that.
#pragma once

#include <memory>
#include <string>

#include "tests/xds/transport/endpoint.h"
#include "xds/transport/verbs/verbs_listener.h"

namespace fabric::xds::transport {

// True: over RDMA.
bool over_rdma();
// An address of this machine: 127.0.0.1, or the RDMA device's.
std::string test_host();
std::string test_address(int port);

// The RDMA side of a reactor of a test.
class RdmaSide {
  public:
    explicit RdmaSide(Reactor& reactor);
    // Before the reactor ends.
    void stop();
    VerbsLane& lane() { return *lane_; }
    VerbsDomains& domains() { return domains_; }

  private:
    Reactor& reactor_;
    std::unique_ptr<VerbsLane> lane_;
    VerbsDomains domains_;
};

// A reactor with what RDMA needs beside it, in the order in which they may end.
struct Side {
    explicit Side(const std::string& name);
    ~Side();
    std::unique_ptr<RdmaSide> rdma;  // null over TCP
    std::unique_ptr<Reactor> reactor;
};

// Connects to a target.
Endpoint::Make dial(Side& side, const std::string& address, const VerbsOptions& options = {});

}  // namespace fabric::xds::transport
