// A connection's way up: its queues and memory, the handshake in the connection manager's private data, and the states
// of the queue pairs.
#include <algorithm>
#include <chrono>

#include "xds/transport/verbs/verbs_connection.h"

namespace fabric::xds::transport {
namespace {

constexpr unsigned messages_leaving = 32;

// The peer is gone when its card has not answered for so long: the card waits 4.096 us * 2^17, eight times.
constexpr uint8_t answer_time = 17;

// How long a peer pauses that sent more than was awaited: 0.64 ms (InfiniBand specification, volume 1, table 45).
constexpr uint8_t receiver_pause = 12;

}  // namespace

Status VerbsConnection::set_up(VerbsDomains& domains, const VerbsOptions& options) {
    Result<std::shared_ptr<VerbsDomain>> domain = domains.of(id_->verbs);
    if (!domain.ok()) return domain.status();
    domain_ = std::move(*domain);
    Result<ibv_comp_channel*> channel = lane_.completions(id_->verbs);
    if (!channel.ok()) return channel.status();
    unsigned queues = std::clamp(options.queues, 1U, static_cast<unsigned>(wire::max_queues));
    Result<std::unique_ptr<VerbsMessages>> messages =
        VerbsMessages::make(domain_->pd(), options.receives, messages_leaving);
    if (!messages.ok()) return messages.status();
    messages_ = std::move(*messages);
    // Room for the completion of everything that can be posted at once: the queue cannot overflow.
    auto entries = static_cast<int>(queues * VerbsQueuePair::depth + options.receives);
    completions_ =
        ibv_create_cq(id_->verbs, entries, static_cast<CompletionHandler*>(this), *channel, /*comp_vector=*/0);
    if (completions_ == nullptr) return Status::from_errno(errno, "completion queue for " + peer_);
    if (int error = ibv_req_notify_cq(completions_, 0)) return Status::from_errno(error, "completion queue");
    ibv_srq_init_attr arrivals{};
    arrivals.attr.max_wr = options.receives;
    arrivals.attr.max_sge = 1;
    arrivals_ = ibv_create_srq(domain_->pd(), &arrivals);
    if (arrivals_ == nullptr) return Status::from_errno(errno, "receive queue for " + peer_);
    for (unsigned slot = 0; slot < options.receives; ++slot) FABRIC_RETURN_IF_ERROR(receive_into(slot));
    first_psn_ =
        static_cast<uint32_t>(reinterpret_cast<uintptr_t>(this) >> 4 ^
                              static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count())) &
        wire::max_24_bits;
    return make_pairs(queues);
}

// The first belongs to the id, which the connection manager takes through its states; the others are made beside it.
Status VerbsConnection::make_pairs(unsigned queues) {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = completions_;
    wanted.srq = arrivals_;
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap.max_send_wr = VerbsQueuePair::depth;
    wanted.cap.max_send_sge = domain_->limits().parts;
    wanted.cap.max_inline_data = 256;
    ibv_qp_init_attr given = wanted;
    if (rdma_create_qp(id_.get(), domain_->pd(), &given) != 0) {
        // Not every device carries data in its work requests.
        wanted.cap.max_inline_data = 0;
        given = wanted;
        if (rdma_create_qp(id_.get(), domain_->pd(), &given) != 0)
            return Status::from_errno(errno, "queue pair for " + peer_);
    }
    inline_bytes_ = given.cap.max_inline_data;
    VerbsQueuePair::Surroundings around{domain_.get(), messages_.get(), inline_bytes_};
    pairs_.push_back(std::make_unique<VerbsQueuePair>(id_->qp, 0, around));
    for (unsigned i = 1; i < queues; ++i) {
        given = wanted;
        ibv_qp* pair = ibv_create_qp(domain_->pd(), &given);
        if (pair == nullptr) return Status::from_errno(errno, "queue pair for " + peer_);
        pairs_.push_back(std::make_unique<VerbsQueuePair>(pair, i, around));
    }
    return {};
}

wire::RdmaHandshake VerbsConnection::own_handshake() const {
    wire::RdmaHandshake handshake;
    handshake.queues = static_cast<uint8_t>(pairs_.size());
    handshake.receive_size = VerbsMessages::slot_size;
    handshake.first_psn = first_psn_;
    for (size_t i = 1; i < pairs_.size(); ++i) handshake.numbers[i - 1] = pairs_[i]->pair()->qp_num;
    return handshake;
}

Status VerbsConnection::request() {
    auto bytes = wire::encode(own_handshake());
    rdma_conn_param parameters{};
    parameters.private_data = bytes.data();
    parameters.private_data_len = bytes.size();
    parameters.responder_resources = static_cast<uint8_t>(domain_->limits().read_depth);
    parameters.initiator_depth = 0;
    parameters.retry_count = 7;
    parameters.rnr_retry_count = 7;  // without end: the peer reads its messages when it can
    set_answer_time();
    if (rdma_connect(id_.get(), &parameters) != 0) return Status::from_errno(errno, "RDMA connect to " + peer_);
    return {};
}

// A device that cannot set it keeps its own.
void VerbsConnection::set_answer_time() {
    uint8_t time = answer_time;
    (void)rdma_set_option(id_.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &time, sizeof time);
}

// The connection manager gives its own queue pair the longest one. Where a device cannot change it that stays.
void VerbsConnection::shorten_receiver_pause() {
    ibv_qp_attr attributes{};
    attributes.min_rnr_timer = receiver_pause;
    (void)ibv_modify_qp(id_->qp, &attributes, IBV_QP_MIN_RNR_TIMER);
}

// Paths and addresses are those of the first pair: only its number and sequence numbers differ.
Status VerbsConnection::start_extra_pair(ibv_qp* pair, uint32_t peer_number, uint32_t peer_psn, unsigned reads_answered,
                                         unsigned reads_issued) {
    for (ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
        ibv_qp_attr attributes{};
        attributes.qp_state = state;
        int mask = 0;
        if (rdma_init_qp_attr(id_.get(), &attributes, &mask) != 0)
            return Status::from_errno(errno, "state of a queue pair to " + peer_);
        if (state == IBV_QPS_RTR) {
            attributes.dest_qp_num = peer_number;
            attributes.rq_psn = peer_psn;
            attributes.min_rnr_timer = receiver_pause;
            attributes.max_dest_rd_atomic = static_cast<uint8_t>(reads_answered);
        } else if (state == IBV_QPS_RTS) {
            attributes.sq_psn = first_psn_;
            attributes.max_rd_atomic = static_cast<uint8_t>(reads_issued);
            attributes.retry_cnt = attributes.rnr_retry = 7;
        }
        if (int error = ibv_modify_qp(pair, &attributes, mask))
            return Status::from_errno(error, "state of a queue pair to " + peer_);
    }
    return {};
}

Status VerbsConnection::start_extra_pairs(const wire::RdmaHandshake& peer, unsigned reads_answered,
                                          unsigned reads_issued) {
    for (size_t i = 1; i < pairs_.size(); ++i)
        FABRIC_RETURN_IF_ERROR(
            start_extra_pair(pairs_[i]->pair(), peer.numbers[i - 1], peer.first_psn, reads_answered, reads_issued));
    return {};
}

Status VerbsConnection::established(const wire::RdmaHandshake& peer) {
    if (peer.queues > pairs_.size())
        return {Code::corrupt, EPROTO, peer_ + " granted more queue pairs than were asked for"};
    while (pairs_.size() > peer.queues) {
        ibv_destroy_qp(pairs_.back()->pair());
        pairs_.pop_back();
    }
    FABRIC_RETURN_IF_ERROR(start_extra_pairs(peer, domain_->limits().read_depth, 0));
    shorten_receiver_pause();
    message_limit_ = std::min<size_t>(peer.receive_size, VerbsMessages::slot_size);
    established_ = true;
    open();
    return {};
}

Status VerbsConnection::accept(const wire::RdmaHandshake& peer, unsigned reads_granted) {
    unsigned reads = std::min(reads_granted, domain_->limits().read_issue);
    if (reads == 0) return {Code::unavailable, ENOTSUP, peer_ + " answers no RDMA READ"};
    set_answer_time();
    FABRIC_RETURN_IF_ERROR(start_extra_pairs(peer, 0, reads));
    message_limit_ = std::min<size_t>(peer.receive_size, VerbsMessages::slot_size);
    auto bytes = wire::encode(own_handshake());
    rdma_conn_param parameters{};
    parameters.private_data = bytes.data();
    parameters.private_data_len = bytes.size();
    parameters.responder_resources = 0;
    parameters.initiator_depth = static_cast<uint8_t>(reads);
    parameters.rnr_retry_count = 7;
    // Before the answer leaves: what it brings may be here before this call returns.
    open();
    if (rdma_accept(id_.get(), &parameters) == 0) {
        shorten_receiver_pause();
        return {};
    }
    return Status::from_errno(errno, "RDMA accept of " + peer_);
}

}  // namespace fabric::xds::transport
