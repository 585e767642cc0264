#include "tests/xds/target/raw_rdma.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <rdma/rdma_verbs.h>

#include <chrono>
#include <cstring>

#include "xds/security/capability.h"
#include "xds/target/target.h"

namespace fabric::xds {
namespace {

constexpr int patience_ms = 20'000;

std::array<std::byte, wire::RdmaHandshake::wire_size> proper_handshake() {
    wire::RdmaHandshake handshake;
    handshake.receive_size = 65536 + wire::header_size;
    return wire::encode(handshake);
}

uint64_t field(const std::string& text, const std::string& name) {
    std::string lines = "\n" + text;
    size_t at = lines.find("\n" + name + "=");
    EXPECT_NE(at, std::string::npos) << name << " in " << text;
    return at == std::string::npos ? UINT64_MAX : std::stoull(lines.substr(at + name.size() + 2));
}

}  // namespace

RawRdma::RawRdma(const std::string& host, int port, const void* private_data, size_t length)
    : in_(slot * receives), out_(slot * sends) {
    connected_ = connect(host, port, private_data, length);
}

RawRdma::RawRdma(const std::string& host, int port)
    : RawRdma(host, port, proper_handshake().data(), wire::RdmaHandshake::wire_size) {}

Status RawRdma::connect(const std::string& host, int port, const void* private_data, size_t length) {
    rdma_addrinfo hints{}, *found = nullptr;
    hints.ai_port_space = RDMA_PS_TCP;
    std::string service = std::to_string(port);
    if (rdma_getaddrinfo(host.c_str(), service.c_str(), &hints, &found) != 0)
        return Status::from_errno(errno, "rdma_getaddrinfo");
    ibv_qp_init_attr attributes{};
    attributes.cap = {sends, receives, 1, 1, 0};
    attributes.qp_type = IBV_QPT_RC;
    attributes.sq_sig_all = 1;
    int failed = rdma_create_ep(&id_, found, nullptr, &attributes);
    rdma_freeaddrinfo(found);
    if (failed != 0) return Status::from_errno(errno, "rdma_create_ep");
    in_region_ = rdma_reg_msgs(id_, in_.data(), in_.size());
    out_region_ = rdma_reg_msgs(id_, out_.data(), out_.size());
    if (in_region_ == nullptr || out_region_ == nullptr) return Status::from_errno(errno, "rdma_reg_msgs");
    for (unsigned i = 0; i < receives; ++i) {
        char* place = in_.data() + i * slot;
        if (rdma_post_recv(id_, place, place, slot, in_region_) != 0)
            return Status::from_errno(errno, "rdma_post_recv");
    }
    rdma_conn_param parameters{};
    parameters.private_data = private_data;
    parameters.private_data_len = static_cast<uint8_t>(length);
    parameters.responder_resources = 4;
    parameters.retry_count = 7;
    parameters.rnr_retry_count = 7;
    if (rdma_connect(id_, &parameters) != 0) return Status::from_errno(errno, "rdma_connect");
    return {};
}

RawRdma::~RawRdma() {
    if (id_ == nullptr) return;
    // A peer that is gone does not answer, which takes seconds to find out.
    if (connected_.ok() && !cut_off_) rdma_disconnect(id_);
    for (ibv_mr* region : lent_) ibv_dereg_mr(region);
    if (in_region_ != nullptr) rdma_dereg_mr(in_region_);
    if (out_region_ != nullptr) rdma_dereg_mr(out_region_);
    rdma_destroy_ep(id_);
}

Status RawRdma::send(const void* bytes, size_t length) {
    if (sent_ == sends || length > slot) return Status::from_errno(ENOBUFS, "test");
    char* place = out_.data() + sent_++ * slot;
    std::memcpy(place, bytes, length);
    if (rdma_post_send(id_, nullptr, place, length, out_region_, 0) != 0) return Status::from_errno(errno, "send");
    return {};
}

Status RawRdma::send(const wire::Body& body, uint64_t request, uint16_t credits) {
    wire::Header header;
    header.request = request;
    header.credits = credits;
    std::vector<std::byte> bytes(wire::max_message);
    Result<size_t> size = wire::encode(header, body, bytes);
    if (!size.ok()) return size.status();
    return send(bytes.data(), *size);
}

bool RawRdma::wait_for(int fd) const {
    pollfd one{fd, POLLIN, 0};
    return poll(&one, 1, patience_ms) == 1;
}

// No event within the patience: what is known of it, for whoever has to find the cause.
Status RawRdma::nothing_came() const {
    ibv_wc completion{};
    int there = ibv_poll_cq(id_->recv_cq, 1, &completion), sent = 0;
    while (ibv_poll_cq(id_->send_cq, 1, &completion) == 1) ++sent;
    ibv_qp_attr now{};
    ibv_qp_init_attr made{};
    int state = ibv_query_qp(id_->qp, &now, IBV_QP_STATE, &made) == 0 ? static_cast<int>(now.qp_state) : -1;
    return Status::from_errno(
        ETIMEDOUT, "message " + std::string(there == 1 ? "(it is there: its event was lost)" : "(it is not there)") +
                       ", acknowledged sends " + std::to_string(sent) + " of " + std::to_string(sent_) +
                       ", queue pair state " + std::to_string(state));
}

Result<RawRdma::Message> RawRdma::next() {
    ibv_wc completion{};
    for (;;) {
        int count = ibv_poll_cq(id_->recv_cq, 1, &completion);
        if (count < 0) return Status::from_errno(EIO, "completion queue");
        if (count == 1) break;
        if (ibv_req_notify_cq(id_->recv_cq, 0) != 0) return Status::from_errno(errno, "completion queue");
        if ((count = ibv_poll_cq(id_->recv_cq, 1, &completion)) == 1) break;
        if (!wait_for(id_->recv_cq_channel->fd)) return nothing_came();
        ibv_cq* queue = nullptr;
        void* context = nullptr;
        if (ibv_get_cq_event(id_->recv_cq_channel, &queue, &context) == 0) ibv_ack_cq_events(queue, 1);
    }
    if (completion.status != IBV_WC_SUCCESS)
        return Status::from_errno(ECONNRESET, ibv_wc_status_str(completion.status));
    auto* place = reinterpret_cast<std::byte*>(completion.wr_id);
    wire::HeaderBytes header;
    std::memcpy(header.data(), place, header.size());
    wire::Bytes body(place + header.size(), completion.byte_len - header.size());
    Result<wire::Header> decoded = wire::decode_header(header);
    if (!decoded.ok()) return decoded.status();
    Result<wire::Body> parsed = wire::decode_body(header, body);
    if (!parsed.ok()) return parsed.status();
    Message message{*decoded, wire::print(*parsed)};
    if (rdma_post_recv(id_, place, place, slot, in_region_) != 0) return Status::from_errno(errno, "rdma_post_recv");
    return message;
}

unsigned RawRdma::greet() {
    wire::Hello hello;
    hello.nonce = security::random_id();
    hello.time_ns = target::wall_clock_ns();
    EXPECT_TRUE(send(hello, 1, 4).ok());
    Result<Message> answer = next();
    EXPECT_TRUE(answer.ok()) << answer.status().message();
    if (!answer.ok()) return 0;
    EXPECT_EQ(answer->header.type, wire::Type::hello_reply) << answer->text;
    return answer->header.credits;
}

uint32_t RawRdma::open(const std::string& path, uint32_t flags) {
    EXPECT_TRUE(send(wire::Open{flags, 0644, path, {}, {}}, 2).ok());
    Result<Message> answer = next();
    EXPECT_TRUE(answer.ok()) << answer.status().message();
    return answer.ok() ? static_cast<uint32_t>(field(answer->text, "handle")) : UINT32_MAX;
}

bool RawRdma::cut_off() {
    while (wait_for(id_->channel->fd)) {
        rdma_cm_event* event = nullptr;
        if (rdma_get_cm_event(id_->channel, &event) != 0) return false;
        bool over = event->event == RDMA_CM_EVENT_DISCONNECTED;
        rdma_ack_cm_event(event);
        if (over) return cut_off_ = true;
    }
    return false;
}

uint32_t RawRdma::lend(void* memory, size_t length) {
    constexpr int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    ibv_mr* region = ibv_reg_mr(id_->pd, memory, length, rights);
    EXPECT_NE(region, nullptr);
    if (region == nullptr) return 0;
    lent_.push_back(region);
    return region->rkey;
}

}  // namespace fabric::xds
