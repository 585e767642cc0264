// Where a target awaits RDMA connections.
#pragma once

#include <functional>

#include "xds/transport/verbs/verbs_connection.h"

namespace fabric::xds::transport {

// A client's request to connect, to be answered by VerbsConnection::accept() on any lane, or by refuse().
struct VerbsRequest {
    CmId id;
    wire::RdmaHandshake handshake;
    unsigned reads = 0;  // RDMA READs that the client answers at once
};
void refuse(const VerbsRequest& request, wire::RdmaRefusalCause cause);
// Takes the request over to the lane and accepts it there. On that lane's thread.
Result<std::unique_ptr<VerbsConnection>> accept(VerbsRequest request, VerbsLane& lane, Owner& owner,
                                                VerbsDomains& domains, VerbsOptions options);

// On the lane's thread, destruction too.
class VerbsListener : private CmHandler {
  public:
    using Arrived = std::function<void(VerbsRequest)>;
    // `address`: as for listen_tcp; the port must not be 0.
    static Result<std::unique_ptr<VerbsListener>> listen(VerbsLane& lane, const std::string& address, Arrived arrived);

  private:
    explicit VerbsListener(Arrived arrived) : arrived_(std::move(arrived)) {}
    void on_cm_event(const CmEvent& event) override;

    Arrived arrived_;
    CmId id_;
};

}  // namespace fabric::xds::transport
