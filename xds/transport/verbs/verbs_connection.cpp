#include "xds/transport/verbs/verbs_connection.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "xds/transport/tcp/tcp_address.h"

namespace fabric::xds::transport {
namespace {

constexpr uint64_t is_receive = uint64_t{1} << 63;  // of a work request's id
constexpr std::chrono::seconds silence{15};         // after which the peer is asked whether it is there
constexpr std::chrono::seconds handshake_patience{5};

Status completion_error(const std::string& peer, const ibv_wc& completion) {
    int error = ECONNRESET;
    const char* hint = "";
    switch (completion.status) {
        case IBV_WC_REM_ACCESS_ERR:
        case IBV_WC_REM_INV_REQ_ERR:
            error = EACCES;
            hint = ": the other side's memory, key and length do not agree";
            break;
        case IBV_WC_RETRY_EXC_ERR:
        case IBV_WC_RNR_RETRY_EXC_ERR:
            error = ETIMEDOUT;
            hint = ": the other side does not answer";
            break;
        case IBV_WC_LOC_PROT_ERR:
        case IBV_WC_LOC_LEN_ERR:
        case IBV_WC_MW_BIND_ERR:
            error = EIO;
            break;
        default:
            break;
    }
    return {Code::unavailable, error,
            "RDMA with " + peer + ": " + ibv_wc_status_str(completion.status) + " (vendor code " +
                std::to_string(completion.vendor_err) + ")" + hint};
}

}  // namespace

VerbsConnection::VerbsConnection(VerbsLane& lane, Owner& owner, CmId id)
    : Connection(lane.reactor(), owner), lane_(lane), id_(std::move(id)) {
    peer_ = "rdma " + address_text(rdma_get_peer_addr(id_.get()));
    keep_alive_.connection = this;
    keep_alive_.expired = [](Timer& timer) { static_cast<KeepAlive&>(timer).connection->keep_alive(); };
    credit_.sent = [](Send& send, const Status&) { static_cast<Credit&>(send).busy = false; };
}

Result<std::unique_ptr<VerbsConnection>> VerbsConnection::make(VerbsLane& lane, Owner& owner, VerbsDomains& domains,
                                                               CmId id, const VerbsOptions& options) {
    std::unique_ptr<VerbsConnection> connection(new VerbsConnection(lane, owner, std::move(id)));
    FABRIC_RETURN_IF_ERROR(connection->set_up(domains, options));
    return connection;
}

VerbsConnection::~VerbsConnection() {
    if (keep_alive_.armed) reactor().disarm(keep_alive_);
    destroy_pairs();
    if (arrivals_ != nullptr) ibv_destroy_srq(arrivals_);
    if (completions_ != nullptr) ibv_destroy_cq(completions_);
}

void VerbsConnection::open() {
    id_->context = static_cast<CmHandler*>(this);
    keep_alive_.deadline = std::chrono::steady_clock::now() + silence;
    reactor().arm(keep_alive_);
}

Status VerbsConnection::receive_into(unsigned slot) {
    ibv_sge part{reinterpret_cast<uint64_t>(messages_->at(slot)), static_cast<uint32_t>(VerbsMessages::slot_size),
                 messages_->key()};
    ibv_recv_wr request{};
    request.wr_id = is_receive | slot;
    request.sg_list = &part;
    request.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    int error = ibv_post_srq_recv(arrivals_, &request, &bad);
    return error == 0 ? Status() : Status::from_errno(error, "receive queue for " + peer_);
}

// ---- events ----

void VerbsConnection::on_cm_event(const CmEvent& event) {
    established_ = true;  // or never will be
    if (closing_) return disconnect();
    switch (event.type) {
        case RDMA_CM_EVENT_DISCONNECTED:
            // What came before the end is still to be read.
            on_completions();
            close({Code::unavailable, ECONNRESET, peer_ + " closed the connection"});
            break;
        case RDMA_CM_EVENT_DEVICE_REMOVAL:
            close({Code::unavailable, ENODEV, "the RDMA device of the connection to " + peer_ + " was removed"});
            break;
        case RDMA_CM_EVENT_CONNECT_ERROR:
        case RDMA_CM_EVENT_UNREACHABLE:
        case RDMA_CM_EVENT_REJECTED:
            close({Code::unavailable, ECONNRESET,
                   peer_ + ": the connection was not completed (" + rdma_event_str(event.type) + ")"});
            break;
        default:  // what changes nothing
            break;
    }
}

void VerbsConnection::on_completions() {
    if (polling_) return;
    // Asked again after the next event is armed, so that nothing falls between.
    while (poll()) {
    }
    if (int error = ibv_req_notify_cq(completions_, 0))
        return close(Status::from_errno(error, "completion queue of " + peer_));
    while (poll()) {
    }
}

// True: there was something.
bool VerbsConnection::poll() {
    std::array<ibv_wc, 32> batch;
    int count = ibv_poll_cq(completions_, static_cast<int>(batch.size()), batch.data());
    if (count < 0) close(Status::from_errno(EIO, "completion queue of " + peer_));
    if (count <= 0) return false;
    polling_ = true;
    for (int i = 0; i < count; ++i) {
        const ibv_wc& completion = batch[static_cast<size_t>(i)];
        if (completion.status != IBV_WC_SUCCESS)
            close(completion_error(peer_, completion));
        else if ((completion.opcode & IBV_WC_RECV) != 0)
            arrived(completion);
        else
            completed(completion);
    }
    polling_ = false;
    post_all();
    return true;
}

void VerbsConnection::completed(const ibv_wc& completion) {
    auto pair = std::find_if(pairs_.begin(), pairs_.end(),
                             [&](const auto& one) { return one->pair()->qp_num == completion.qp_num; });
    if (pair == pairs_.end()) return;
    (*pair)->completed(completion.wr_id);
    while (Queued* work = (*pair)->take_completed()) finish_work(*work, {});
}

void VerbsConnection::arrived(const ibv_wc& completion) {
    auto slot = static_cast<unsigned>(completion.wr_id & ~is_receive);
    if ((completion.wc_flags & domain_->limits().invalidated_flags) != 0) invalidated(completion.invalidated_rkey);
    if (!closing_) {
        size_t queue = 0;
        while (queue + 1 < pairs_.size() && pairs_[queue]->pair()->qp_num != completion.qp_num) ++queue;
        wire::Bytes message(messages_->at(slot), completion.byte_len);
        wire::HeaderBytes header;
        Status status;
        if (message.size() < header.size()) {
            status = {Code::corrupt, EPROTO, "a message shorter than its header"};
        } else {
            std::memcpy(header.data(), message.data(), header.size());
            status = deliver(header, message.subspan(header.size()), static_cast<unsigned>(queue));
        }
        if (!status.ok()) close({status.code(), status.errno_value(), peer_ + ": " + status.message()});
    }
    if (closing_) return;
    if (Status status = receive_into(slot); !status.ok()) close(status);
}

void VerbsConnection::finish_work(Queued& work, const Status& status) {
    switch (work.kind) {
        case Queued::Kind::message: {
            auto& send = static_cast<Send&>(work);
            if (send.slot >= 0) messages_->give_back(std::exchange(send.slot, -1));
            return send.sent(send, status);
        }
        case Queued::Kind::fetch: {
            auto& fetch = static_cast<Fetch&>(work);
            return fetch.fetched(fetch, status);
        }
        case Queued::Kind::end_of_access:
            // When the connection ends all that is exposed is released together.
            if (status.ok()) release(static_cast<Exposure&>(work));
            return;
    }
}

// A card that is gone with its machine says nothing: a message that must be acknowledged finds out.
void VerbsConnection::keep_alive() {
    if (closing_) return disconnect();
    // Whatever a lost event would have told of is seen at last.
    on_completions();
    if (closing_) return;
    if (!std::exchange(sent_something_, false) && !credit_.busy) credit_.busy = send(credit_, wire::Credit{}).ok();
    keep_alive_.deadline = std::chrono::steady_clock::now() + silence;
    reactor().arm(keep_alive_);
}

// ---- work ----

void VerbsConnection::enqueue(Send& send) {
    sent_something_ = true;
    add(send, send.queue);
}

void VerbsConnection::fetch(Fetch& fetch) { add(fetch, fetch.queue); }

void VerbsConnection::add(Queued& work, unsigned queue) {
    pairs_[queue < pairs_.size() ? queue : 0]->add(work);
    if (!polling_) post_all();
}

void VerbsConnection::post_all() {
    for (auto& pair : pairs_) {
        if (closing_) return;
        if (!pair->waiting()) continue;
        if (Status status = pair->post(); !status.ok()) close(status);
    }
}

// ---- memory lent to the peer ----

Status VerbsConnection::expose(Exposure& exposure, const memory::Place& place, const void* address, size_t length,
                               memory::Access access) {
    if (closing_) return {Code::unavailable, ECONNRESET, "the connection to " + peer_ + " is closing"};
    if (length == 0 || length > UINT32_MAX) return {Code::invalid, EINVAL, "memory of an impossible length"};
    bool writes = access == memory::Access::write;
    uint32_t rkey = 0;
    // What is not kept registered gets its rights with its registration: a window would add nothing.
    bool host = place.kind->host_accessible();
    exposure.by_window = place.allocation.id != 0 && domain_->limits().windows &&
                         (host || domain_->device_memory().takes_windows(place));
    if (exposure.by_window) {
        auto lease = domain_->registrations().acquire(place, address, length, access);
        if (!lease.ok()) return lease.status();
        VerbsWindow* window = take_window();
        if (window == nullptr) return Status::from_errno(ENOMEM, "memory window of the connection to " + peer_);
        exposure.lease = std::move(*lease);
        window->state = VerbsWindow::State::prepared;
        window->exposure = &exposure;
        window->window->rkey = window->current;
        window->rkey = ibv_inc_rkey(window->current);
        window->region = VerbsDomain::region(exposure.lease.key());
        window->address = reinterpret_cast<uint64_t>(address);
        window->length = length;
        window->rights = writes ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ;
        exposure.window = window;
        rkey = window->rkey;
    } else if (!host) {
        // By the cache, which knows what the device's aperture has room for.
        auto lease = domain_->registrations().acquire(place, address, length, access, memory::Term::one_request);
        if (!lease.ok()) return lease.status();
        exposure.lease = std::move(*lease);
        rkey = VerbsDomain::region(exposure.lease.key())->rkey;
    } else {
        Result<uint64_t> registration = domain_->lend(address, length, access);
        if (!registration.ok()) return registration.status();
        exposure.registration = *registration;
        rkey = VerbsDomain::region(*registration)->rkey;
    }
    exposure.segment = {reinterpret_cast<uint64_t>(address), rkey, static_cast<uint32_t>(length)};
    exposure.queue = next_queue_++ % static_cast<unsigned>(pairs_.size());
    exposure.index = exposures_.size();
    exposures_.push_back(&exposure);
    return {};
}

VerbsWindow* VerbsConnection::take_window() {
    for (auto& window : windows_)
        if (window->state == VerbsWindow::State::idle) return window.get();
    ibv_mw* made = ibv_alloc_mw(domain_->pd(), IBV_MW_TYPE_2);
    if (made == nullptr) return nullptr;
    windows_.push_back(std::make_unique<VerbsWindow>());
    windows_.back()->window = made;
    windows_.back()->current = made->rkey;
    return windows_.back().get();
}

void VerbsConnection::invalidated(uint32_t rkey) {
    for (auto& window : windows_)
        if (window->state == VerbsWindow::State::bound && window->rkey == rkey) {
            // Free for the next request; the exposure learns it from end_access().
            window->state = VerbsWindow::State::prepared;
            return;
        }
}

void VerbsConnection::end_access(Exposure& exposure) {
    if (closing_) return;  // finish_close() will
    VerbsWindow* window = exposure.window;
    if (window == nullptr || window->state != VerbsWindow::State::bound) return release(exposure);
    window->state = VerbsWindow::State::ending;
    add(exposure, exposure.queue);
}

// The peer cannot reach the memory any more.
void VerbsConnection::release(Exposure& exposure) {
    if (VerbsWindow* window = std::exchange(exposure.window, nullptr)) window->state = VerbsWindow::State::idle;
    exposure.lease.reset();
    if (exposure.registration != 0) domain_->remove(std::exchange(exposure.registration, 0));
    exposures_[exposure.index] = exposures_.back();
    exposures_[exposure.index]->index = exposure.index;
    exposures_.pop_back();
    exposure.ended(exposure);
}

// ---- the end ----

void VerbsConnection::close(const Status& why) {
    if (closing_) return;
    closing_ = true;
    why_ = why.ok() ? Status(Code::unavailable, ECONNRESET, "the connection to " + peer_ + " was closed") : why;
    reactor().disarm(keep_alive_);
    if (established_) return disconnect();
    // A client's first message may be here before the connection manager's word that the client is connected. Before
    // that word a disconnect is not sent, and the client would not learn of the end: it is awaited, but not for long.
    stop_pairs();
    keep_alive_.deadline = std::chrono::steady_clock::now() + handshake_patience;
    reactor().arm(keep_alive_);
}

void VerbsConnection::disconnect() {
    if (std::exchange(disconnecting_, true)) return;
    reactor().disarm(keep_alive_);
    (void)rdma_disconnect(id_.get());
    last_task_.connection = this;
    last_task_.run = [](Task& task) { static_cast<Last&>(task).connection->finish_close(); };
    reactor().post(last_task_);
}

// What is queued moves no data and binds no window any more.
void VerbsConnection::stop_pairs() {
    for (auto& pair : pairs_) {
        ibv_qp_attr attributes{};
        attributes.qp_state = IBV_QPS_ERR;
        (void)ibv_modify_qp(pair->pair(), &attributes, IBV_QP_STATE);
    }
}

// When a queue pair is destroyed the card has let go of all memory that its work requests, and the peer's, name.
// Windows go first: a bound one holds on to its queue pair, and soft-RoCE waits a minute for it to let go (Linux 6.1,
// rxe_pool.c).
void VerbsConnection::destroy_pairs() {
    stop_pairs();
    for (auto& window : windows_) ibv_dealloc_mw(window->window);
    windows_.clear();
    for (size_t i = 1; i < pairs_.size(); ++i) ibv_destroy_qp(pairs_[i]->pair());
    if (id_ != nullptr && id_->qp != nullptr) rdma_destroy_qp(id_.get());
}

// Only then does it go back to its owners.
void VerbsConnection::finish_close() {
    destroy_pairs();
    std::vector<std::unique_ptr<VerbsQueuePair>> pairs = std::move(pairs_);
    pairs_.clear();
    for (Exposure* exposure : exposures_) exposure->window = nullptr;
    for (auto& pair : pairs)
        while (Queued* work = pair->take_any()) finish_work(*work, why_);
    while (!exposures_.empty()) release(*exposures_.back());
    // A copy: the owner may destroy the connection before it looks.
    const Status why = why_;
    owner_.on_closed(*this, why);
}

}  // namespace fabric::xds::transport
