#include "xds/transport/verbs/verbs_listener.h"

#include <netdb.h>

#include <algorithm>

#include "common/log.h"
#include "xds/transport/tcp/tcp_address.h"

namespace fabric::xds::transport {
namespace {

constexpr int backlog = 256;

}  // namespace

void refuse(const VerbsRequest& request, wire::RdmaRefusalCause cause) {
    auto bytes = wire::encode(wire::RdmaRefusal{wire::rdma_version, cause, 0});
    (void)rdma_reject(request.id.get(), bytes.data(), bytes.size());
}

Result<std::unique_ptr<VerbsConnection>> accept(VerbsRequest request, VerbsLane& lane, Owner& owner,
                                                VerbsDomains& domains, VerbsOptions options) {
    if (rdma_migrate_id(request.id.get(), lane.events()) != 0)
        return Status::from_errno(errno, "RDMA connection request");
    // Its own place in the lane until the connection takes over; nothing is told before it is accepted.
    options.queues = std::min<unsigned>(options.queues, request.handshake.queues);
    auto made = VerbsConnection::make(lane, owner, domains, std::move(request.id), options);
    if (!made.ok()) return made;
    FABRIC_RETURN_IF_ERROR((*made)->accept(request.handshake, request.reads));
    return made;
}

Result<std::unique_ptr<VerbsListener>> VerbsListener::listen(VerbsLane& lane, const std::string& address,
                                                             Arrived arrived) {
    Result<HostPort> parsed = parse_address(address);
    if (!parsed.ok()) return parsed.status();
    Result<Addresses> addresses = resolve(address, AI_PASSIVE);
    if (!addresses.ok()) return addresses.status();
    std::unique_ptr<VerbsListener> listener(new VerbsListener(std::move(arrived)));
    rdma_cm_id* made = nullptr;
    if (rdma_create_id(lane.events(), &made, static_cast<CmHandler*>(listener.get()), RDMA_PS_TCP) != 0)
        return Status::from_errno(errno, "RDMA listener on " + address);
    listener->id_.reset(made);
    if (rdma_bind_addr(made, (*addresses)->ai_addr) != 0 || rdma_listen(made, backlog) != 0)
        return Status::from_errno(errno, "RDMA listener on " + address);
    // An address that belongs to no RDMA device may be bound all the same; nothing would ever come.
    if (made->verbs == nullptr && !parsed->host.empty() && parsed->host != "0.0.0.0" && parsed->host != "::")
        return Status(Code::unavailable, ENODEV, "RDMA listener on " + address + ": no RDMA device has that address");
    return listener;
}

void VerbsListener::on_cm_event(const CmEvent& event) {
    if (event.type != RDMA_CM_EVENT_CONNECT_REQUEST) return;
    VerbsRequest request;
    request.id.reset(event.id);
    request.reads = event.initiator_depth;
    auto handshake = wire::decode_rdma_handshake({event.data.data(), event.data_length});
    if (!handshake.ok()) {
        log::warn("RDMA client {}: {}", address_text(rdma_get_peer_addr(event.id)), handshake.status().message());
        return refuse(request, handshake.status().errno_value() == EPROTONOSUPPORT
                                   ? wire::RdmaRefusalCause::other_version
                                   : wire::RdmaRefusalCause::none);
    }
    request.handshake = *handshake;
    arrived_(std::move(request));
}

}  // namespace fabric::xds::transport
