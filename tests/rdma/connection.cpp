#include "tests/rdma/connection.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>

#include <cerrno>
#include <cstring>

namespace rogue {
namespace {

constexpr uint32_t send_slots = 256;
constexpr int setup_timeout = 10'000;       // milliseconds for each step of the set-up
constexpr uint64_t send_flag = 1ull << 32;  // in a work request's id: a send, not a receive
constexpr uint64_t read_flag = 1ull << 33;  // an RDMA READ of ours

std::string reason(const char* call) { return std::string(call) + ": " + std::strerror(errno); }

void set_nonblocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

Connection::Connection(const Endpoint& server, const ConnectionOptions& options)
    : options_(options), channel_(rdma_create_event_channel(), rdma_destroy_event_channel) {
    check(channel_ != nullptr, reason("rdma_create_event_channel"));
    resolve(server);
    create_queue_pair();
    connect();
}

Connection::~Connection() {
    if (connected_) rdma_disconnect(id_.get());
    if (id_ && id_->qp) rdma_destroy_qp(id_.get());
}

void Connection::resolve(const Endpoint& server) {
    rdma_cm_id* id = nullptr;
    check(rdma_create_id(channel_.get(), &id, this, RDMA_PS_TCP) == 0, reason("rdma_create_id"));
    id_.reset(id);
    addrinfo hints{}, *found = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    check(getaddrinfo(server.address.c_str(), server.port.c_str(), &hints, &found) == 0,
          "no address for " + server.address);
    int rc = rdma_resolve_addr(id, nullptr, found->ai_addr, setup_timeout);
    freeaddrinfo(found);
    check(rc == 0, reason("rdma_resolve_addr"));
    await_event(RDMA_CM_EVENT_ADDR_RESOLVED);
    check(rdma_resolve_route(id, setup_timeout) == 0, reason("rdma_resolve_route"));
    await_event(RDMA_CM_EVENT_ROUTE_RESOLVED);
}

void Connection::create_queue_pair() {
    domain_.reset(ibv_alloc_pd(id_->verbs));
    check(domain_ != nullptr, reason("ibv_alloc_pd"));
    completions_.reset(ibv_create_comp_channel(id_->verbs));
    check(completions_ != nullptr, reason("ibv_create_comp_channel"));
    queue_.reset(
        ibv_create_cq(id_->verbs, static_cast<int>(options_.receives + send_slots), nullptr, completions_.get(), 0));
    check(queue_ != nullptr, reason("ibv_create_cq"));
    set_nonblocking(completions_->fd);
    ibv_req_notify_cq(queue_.get(), 0);

    ibv_qp_init_attr attributes{};
    attributes.qp_type = IBV_QPT_RC;
    attributes.send_cq = attributes.recv_cq = queue_.get();
    attributes.cap = {send_slots, options_.receives, 1, 1, 0};
    check(rdma_create_qp(id_.get(), domain_.get(), &attributes) == 0, reason("rdma_create_qp"));

    buffers_.resize(size_t{options_.receive_size} * (options_.receives + send_slots));
    memory_.resize(options_.memory);
    buffer_region_.reset(ibv_reg_mr(domain_.get(), buffers_.data(), buffers_.size(), IBV_ACCESS_LOCAL_WRITE));
    memory_region_.reset(ibv_reg_mr(domain_.get(), memory_.data(), memory_.size(),
                                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE));
    check(buffer_region_ && memory_region_, reason("ibv_reg_mr"));
    for (uint32_t slot = 0; slot < options_.receives; ++slot) post_receive(slot);
    for (uint32_t slot = 0; slot < send_slots; ++slot) free_sends_.push_back(slot);
}

void Connection::connect() {
    rdma_conn_param parameters{};
    parameters.responder_resources = options_.reads;
    parameters.initiator_depth = options_.reads;
    parameters.retry_count = 7;
    parameters.rnr_retry_count = 7;
    parameters.private_data = options_.private_data.data();
    parameters.private_data_len = static_cast<uint8_t>(options_.private_data.size());
    check(rdma_connect(id_.get(), &parameters) == 0, reason("rdma_connect"));
    if (options_.give_up) return;
    rdma_cm_event event = await_event(RDMA_CM_EVENT_ESTABLISHED);
    // In an event the values are from the receiver's side: what the server initiates is what we respond to.
    granted_initiator_depth_ = event.param.conn.responder_resources;
    granted_responder_resources_ = event.param.conn.initiator_depth;
    connected_ = true;
    set_nonblocking(channel_->fd);
}

rdma_cm_event Connection::await_event(rdma_cm_event_type expected) {
    pollfd watched{channel_->fd, POLLIN, 0};
    check(::poll(&watched, 1, setup_timeout) == 1,
          std::string("no answer from the server while waiting for ") + rdma_event_str(expected));
    rdma_cm_event* event = nullptr;
    check(rdma_get_cm_event(channel_.get(), &event) == 0, reason("rdma_get_cm_event"));
    rdma_cm_event copy = *event;
    auto* data = static_cast<const uint8_t*>(event->param.conn.private_data);
    if (event->event == RDMA_CM_EVENT_ESTABLISHED && data != nullptr)
        private_data_.assign(data, data + event->param.conn.private_data_len);
    rdma_ack_cm_event(event);
    check(copy.event == expected, std::string("expected ") + rdma_event_str(expected) + ", got " +
                                      rdma_event_str(copy.event) + " (" + std::to_string(copy.status) + ")");
    return copy;
}

void Connection::post_receive(uint32_t slot) {
    ibv_sge where{reinterpret_cast<uintptr_t>(buffers_.data()) + size_t{slot} * options_.receive_size,
                  options_.receive_size, buffer_region_->lkey};
    ibv_recv_wr request{}, *bad = nullptr;
    request.wr_id = slot;
    request.sg_list = &where;
    request.num_sge = 1;
    if (ibv_post_recv(id_->qp, &request, &bad) != 0) closed_ = true;
}

bool Connection::send(std::span<const uint8_t> message) {
    check(message.size() <= options_.receive_size, "a message is larger than a send slot");
    while (free_sends_.empty() && !closed_)
        if (!wait(milliseconds(setup_timeout))) return false;
    if (closed_) return false;
    uint32_t slot = free_sends_.front();
    free_sends_.pop_front();
    uint8_t* buffer = buffers_.data() + size_t{options_.receive_size} * (options_.receives + slot);
    std::memcpy(buffer, message.data(), message.size());
    ibv_sge what{reinterpret_cast<uintptr_t>(buffer), static_cast<uint32_t>(message.size()), buffer_region_->lkey};
    ibv_send_wr request{}, *bad = nullptr;
    request.wr_id = send_flag | slot;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    request.sg_list = &what;
    request.num_sge = 1;
    if (ibv_post_send(id_->qp, &request, &bad) != 0) closed_ = true;
    return !closed_;
}

bool Connection::await_sent(milliseconds timeout) {
    auto deadline = std::chrono::steady_clock::now() + timeout;
    poll_queue();
    while (free_sends_.size() < send_slots && !closed_ && std::chrono::steady_clock::now() < deadline)
        wait(milliseconds(100));
    return free_sends_.size() == send_slots && !closed_;
}

void Connection::poll_queue() {
    ibv_wc done;
    while (ibv_poll_cq(queue_.get(), 1, &done) > 0) {
        if (done.status != IBV_WC_SUCCESS) {
            closed_ = true;
        } else if (done.wr_id & read_flag) {
            peer_read_done_ = true;
        } else if (done.wr_id & send_flag) {
            free_sends_.push_back(static_cast<uint32_t>(done.wr_id));
        } else {
            uint32_t slot = static_cast<uint32_t>(done.wr_id);
            const uint8_t* start = buffers_.data() + size_t{slot} * options_.receive_size;
            inbox_.emplace_back(start, start + done.byte_len);
            post_receive(slot);
        }
    }
}

void Connection::poll_events() {
    rdma_cm_event* event = nullptr;
    while (rdma_get_cm_event(channel_.get(), &event) == 0) {
        rdma_ack_cm_event(event);
        closed_ = true;  // nothing but an end can come on an established connection
    }
}

/// Takes in what there is, else waits for more; false at the time-out.
bool Connection::wait(milliseconds timeout) {
    pollfd watched[] = {{completions_->fd, POLLIN, 0}, {channel_->fd, POLLIN, 0}};
    if (::poll(watched, 2, static_cast<int>(timeout.count())) <= 0) return false;
    ibv_cq* queue = nullptr;
    void* context = nullptr;
    while (ibv_get_cq_event(completions_.get(), &queue, &context) == 0) ibv_ack_cq_events(queue, 1);
    ibv_req_notify_cq(queue_.get(), 0);
    poll_queue();
    poll_events();
    return true;
}

std::optional<Bytes> Connection::receive(milliseconds timeout) {
    auto deadline = std::chrono::steady_clock::now() + timeout;
    poll_queue();
    while (inbox_.empty() && !closed_) {
        auto left = std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now());
        if (left.count() <= 0 || !wait(left)) break;
    }
    if (inbox_.empty()) return std::nullopt;
    Bytes message = std::move(inbox_.front());
    inbox_.pop_front();
    return message;
}

bool Connection::read_peer(uint64_t address, uint32_t key, uint32_t length, milliseconds timeout) {
    ibv_sge where{reinterpret_cast<uintptr_t>(memory_.data()), length, memory_region_->lkey};
    ibv_send_wr request{}, *bad = nullptr;
    request.wr_id = read_flag;
    request.opcode = IBV_WR_RDMA_READ;
    request.send_flags = IBV_SEND_SIGNALED;
    request.sg_list = &where;
    request.num_sge = 1;
    request.wr.rdma.remote_addr = address;
    request.wr.rdma.rkey = key;
    peer_read_done_ = false;
    if (ibv_post_send(id_->qp, &request, &bad) != 0) return false;
    auto deadline = std::chrono::steady_clock::now() + timeout;
    while (!peer_read_done_ && !closed_ && std::chrono::steady_clock::now() < deadline) wait(milliseconds(100));
    return peer_read_done_;
}

bool Connection::wait_closed(milliseconds timeout) {
    auto deadline = std::chrono::steady_clock::now() + timeout;
    while (!closed_) {
        auto left = std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now());
        if (left.count() <= 0 || !wait(left)) return closed_;
    }
    return true;
}

bool Connection::closed() {
    poll_queue();
    poll_events();
    return closed_;
}

void Connection::disconnect() {
    if (connected_) rdma_disconnect(id_.get());
    connected_ = false;
    closed_ = true;
}

void Connection::break_queue_pair() {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_ERR;
    ibv_modify_qp(id_->qp, &attributes, IBV_QP_STATE);
    closed_ = true;
}

}  // namespace rogue
