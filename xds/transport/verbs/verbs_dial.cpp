#include "xds/transport/verbs/verbs_dial.h"

#include "xds/transport/tcp/tcp_address.h"

namespace fabric::xds::transport {

VerbsDial::VerbsDial(VerbsLane& lane, DialOwner& owner, Owner& messages, VerbsDomains& domains, const To& to,
                     const VerbsOptions& options)
    : lane_(lane), owner_(owner), messages_(messages), domains_(domains), to_(to), options_(options) {
    name_ = "RDMA connection to " + address_text(reinterpret_cast<const sockaddr*>(&to_.address));
    begin_.dial = patience_.dial = this;
    begin_.run = [](Task& task) { static_cast<Begin&>(task).dial->begin(); };
    patience_.expired = [](Timer& timer) {
        VerbsDial& dial = *static_cast<Patience&>(timer).dial;
        dial.end({Code::timeout, ETIMEDOUT,
                  dial.name_ + ": no answer within " + std::to_string(dial.to_.limit.count()) + " ms"});
    };
    patience_.deadline = std::chrono::steady_clock::now() + to.limit;
    lane_.reactor().arm(patience_);
    lane_.reactor().post(begin_);
}

// Its timer is not armed any more: the reactor may be gone.
VerbsDial::~VerbsDial() = default;

void VerbsDial::begin() {
    begun_ = true;
    if (over_) return owner_.on_dialed(Status(Code::unavailable, ECANCELED, name_ + ": given up"));
    rdma_cm_id* made = nullptr;
    auto failed = [&](const char* what) { end(Status::from_errno(errno, name_ + ": " + what)); };
    if (rdma_create_id(lane_.events(), &made, static_cast<CmHandler*>(this), RDMA_PS_TCP) != 0) return failed("id");
    id_.reset(made);
    if (rdma_resolve_addr(made, nullptr, reinterpret_cast<sockaddr*>(&to_.address),
                          static_cast<int>(to_.limit.count())) != 0)
        failed("no RDMA device reaches the address");
}

void VerbsDial::on_cm_event(const CmEvent& event) {
    if (over_) return;
    if (Status status = step(event); !status.ok()) end(status);
}

Status VerbsDial::step(const CmEvent& event) {
    switch (event.type) {
        case RDMA_CM_EVENT_ADDR_RESOLVED:
            if (rdma_resolve_route(id_.get(), static_cast<int>(to_.limit.count())) != 0)
                return Status::from_errno(errno, name_ + ": route");
            return {};
        case RDMA_CM_EVENT_ROUTE_RESOLVED: {
            auto made = VerbsConnection::make(lane_, messages_, domains_, std::move(id_), options_);
            if (!made.ok()) return made.status();
            connection_ = std::move(*made);
            return connection_->request();
        }
        case RDMA_CM_EVENT_ESTABLISHED: {
            auto peer = wire::decode_rdma_handshake({event.data.data(), event.data_length});
            if (!peer.ok()) return peer.status();
            FABRIC_RETURN_IF_ERROR(connection_->established(*peer));
            over_ = true;
            lane_.reactor().disarm(patience_);
            owner_.on_dialed(std::unique_ptr<Connection>(std::move(connection_)));
            return {};
        }
        case RDMA_CM_EVENT_REJECTED:
            return refused(event);
        case RDMA_CM_EVENT_ADDR_ERROR:
            return {Code::unavailable, ENETUNREACH, name_ + ": no RDMA device reaches the address"};
        case RDMA_CM_EVENT_ROUTE_ERROR:
            return {Code::unavailable, EHOSTUNREACH, name_ + ": no route"};
        case RDMA_CM_EVENT_UNREACHABLE:
            return {Code::unavailable, EHOSTUNREACH, name_ + ": the other side does not answer"};
        default:
            return {Code::unavailable, ECONNRESET, name_ + ": " + rdma_event_str(event.type)};
    }
}

Status VerbsDial::refused(const CmEvent& event) const {
    auto refusal = wire::decode_rdma_refusal({event.data.data(), event.data_length});
    if (!refusal.ok()) return {Code::unavailable, ECONNREFUSED, name_ + ": nobody listens there for XDS over RDMA"};
    switch (refusal->cause) {
        case wire::RdmaRefusalCause::other_version:
            return {Code::unavailable, EPROTONOSUPPORT,
                    name_ + ": the target speaks XDS over RDMA version " + std::to_string(refusal->speaks)};
        case wire::RdmaRefusalCause::connections:
            return {Code::unavailable, EAGAIN, name_ + ": the target has as many connections as it takes"};
        case wire::RdmaRefusalCause::draining:
            return {Code::unavailable, ESHUTDOWN, name_ + ": the target is going down"};
        default:
            return {Code::unavailable, ECONNREFUSED,
                    name_ + ": the target has no resources for it, its log says which"};
    }
}

void VerbsDial::end(const Status& why) {
    if (std::exchange(over_, true)) return;
    lane_.reactor().disarm(patience_);
    if (!begun_) return;  // begin() will tell
    connection_.reset();
    id_.reset();
    owner_.on_dialed(why);
}

}  // namespace fabric::xds::transport
