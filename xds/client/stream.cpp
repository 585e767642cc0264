#include "xds/client/stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "xds/client/context.h"
#include "xds/security/capability.h"
#include "xds/transport/tcp/tcp_dial.h"
#include "xds/transport/verbs/verbs_dial.h"

namespace fabric::xds::client {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds retry_after{100};
constexpr size_t usual_body = 96;  // bytes of a read's or write's body with one segment
constexpr size_t most_made_ahead = 64;
// Requests that the target may send us unasked: recalls.
constexpr uint16_t credits_for_target = 4;

}  // namespace

Stream::Stream(Context& context, unsigned index) : context_(context), index_(index) {
    patience_.stream = this;
    patience_.expired = [](transport::Timer& timer) {
        Stream& self = *static_cast<Patience&>(timer).stream;
        self.close({Code::timeout, ETIMEDOUT, "target " + self.context_.address() + " does not answer"});
    };
    hello_.sent = [](transport::Send&, const Status&) {};
    recall_done_.sent = hello_.sent;
}

Stream::~Stream() = default;

// ---- connecting ----

// RDMA first, where the context wants it, then TCP.
void Stream::connect() {
    if (state_ == State::failed && steady_clock::now() >= failed_at_ + retry_after) state_ = State::idle;
    if (state_ != State::idle || context_.closing()) return;
    state_ = State::connecting;
    last_dial_.reset();
    if (Status status = dial_rdma(); status.ok()) return;
    dial_tcp();
}

Status Stream::dial_rdma() {
    if (!context_.wants_rdma(index_)) return {Code::unavailable, ENOTSUP, context_.why_not_direct()};
    Result<transport::VerbsLane*> lane = context_.verbs_lane();
    if (!lane.ok()) {
        context_.no_rdma(lane.status().message());
        return lane.status();
    }
    transport::VerbsDial::To to{context_.target_address(), context_.target_address_length(), context_.rdma_patience()};
    transport::VerbsOptions options;
    options.queues = context_.settings().streams;
    dialing_rdma_ = true;
    dial_ = std::make_unique<transport::VerbsDial>(**lane, dial_owner(), *this, context_.domains(), to, options);
    return {};
}

void Stream::dial_tcp() {
    transport::TcpDial::To to{context_.target_address(), context_.target_address_length(), context_.patience()};
    dialing_rdma_ = false;
    dial_ = std::make_unique<transport::TcpDial>(context_.reactor(), dial_owner(), *this, to);
}

void Stream::on_dialed(Result<std::unique_ptr<transport::Connection>> connection) {
    last_dial_ = std::move(dial_);  // it calls us: it goes later
    const Status& why = connection.status();
    if (!why.ok() && dialing_rdma_ && !context_.closing()) {
        context_.no_rdma(why.message());
        // The failed dial may be destroyed when it has returned, which the next one's end comes after.
        return dial_tcp();
    }
    if (!why.ok())
        return attempt_failed(
            {why.code(), why.errno_value(), "connect to target " + context_.address() + ": " + why.message()});
    ++generation_;
    leaving_ = false;
    state_ = State::greeting;
    connection_ = std::move(*connection);
    if (context_.closing()) return connection_->close({Code::unavailable, ECANCELED, "the context was closed"});
    context_.connected_over(index_, !connection_->carries_data_inline());
    patience_.deadline = steady_clock::now() + context_.patience();
    context_.reactor().arm(patience_);
    greet();
}

void Stream::greet() {
    wire::Hello hello;
    hello.cluster = context_.ticket().cluster;
    hello.nonce = nonce_ = security::random_id();
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    hello.time_ns = static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
    hello.ticket = context_.ticket().bytes;
    hello_.header = {};
    hello_.header.credits = credits_for_target;
    if (!hello.ticket.empty()) {
        std::vector<std::byte> bytes(wire::max_message);
        if (Result<size_t> size = wire::encode({}, hello, bytes); size.ok())
            hello.proof = security::hello_proof(context_.ticket().secret,
                                                wire::Bytes(bytes).first(*size).subspan(wire::header_size));
    }
    if (Status status = connection_->send(hello_, hello); !status.ok()) connection_->close(status);
}

void Stream::welcomed(const wire::Header& header, const wire::Body& body) {
    const std::string& address = context_.address();
    if (header.data_length != 0)
        return connection_->close({Code::corrupt, EPROTO, "target " + address + " answered with data"});
    if (const auto* error = std::get_if<wire::Error>(&body))
        return connection_->close({Code::invalid, static_cast<int>(error->error),
                                   "target " + address + " (node " + std::string(error->node) +
                                       ") refused the connection: " + std::string(error->text)});
    const auto* welcome = std::get_if<wire::HelloReply>(&body);
    if (welcome == nullptr || welcome->version != wire::version)
        return connection_->close({Code::corrupt, EPROTO, "target " + address + " gave no proper answer to the hello"});
    if (!context_.ticket().bytes.empty()) {
        std::vector<std::byte> bytes(wire::max_message);
        Result<size_t> size = wire::encode({}, *welcome, bytes);
        if (!size.ok() || !security::equal_in_constant_time(
                              security::welcome_proof(context_.ticket().secret, nonce_,
                                                      wire::Bytes(bytes).first(*size).subspan(wire::header_size)),
                              welcome->proof))
            return connection_->close(
                {Code::invalid, EACCES, "target " + address + " could not prove that it belongs to the cluster"});
    }
    context_.reactor().disarm(patience_);
    instance_ = welcome->instance;
    node_ = welcome->node;
    state_ = State::ready;
    ready_at_ = steady_clock::now();
    // As many as can be in flight: so the number of requests of a sort at once never makes one allocate.
    while (pieces_.size() < std::min<size_t>(connection_->credits(), most_made_ahead)) {
        Piece& piece = make_piece();
        piece.next = std::exchange(free_, &piece);
    }
    context_.counters().connections.fetch_add(1, std::memory_order_relaxed);
    if (generation_ > 1) context_.counters().reconnects.fetch_add(1, std::memory_order_relaxed);
    context_.pump();
}

void Stream::attempt_failed(const Status& why) {
    state_ = State::failed;
    why_ = why;
    failed_at_ = steady_clock::now();
    context_.pump();
}

// ---- messages ----

Piece& Stream::make_piece() {
    pieces_.push_back(std::make_unique<Piece>());
    Piece& fresh = *pieces_.back();
    fresh.stream = this;
    fresh.send.bytes.reserve(wire::header_size + usual_body);
    fresh.index = static_cast<uint32_t>(pieces_.size() - 1);
    fresh.send.piece = fresh.fetch.piece = fresh.exposure.piece = &fresh;
    fresh.send.sent = [](transport::Send& send, const Status&) {
        Piece& piece = *static_cast<Piece::Part<transport::Send>&>(send).piece;
        piece.sending = false;
        piece.stream->settle(piece);
    };
    fresh.fetch.fetched = [](transport::Fetch& fetch, const Status& status) {
        Piece& piece = *static_cast<Piece::Part<transport::Fetch>&>(fetch).piece;
        if (!status.ok() && piece.status.ok()) piece.status = status;
        piece.answered = true;
        piece.stream->settle(piece);
    };
    fresh.exposure.ended = [](transport::Exposure& exposure) {
        Piece& piece = *static_cast<Piece::Part<transport::Exposure>&>(exposure).piece;
        piece.exposed = false;
        piece.stream->settle(piece);
    };
    return fresh;
}

Piece& Stream::take_piece(Operation& operation) {
    if (free_ == nullptr) free_ = &make_piece();
    Piece& piece = *free_;
    free_ = piece.next;
    ++piece.generation;
    piece.operation = &operation;
    piece.sending = piece.answered = piece.by_access = false;
    piece.status = {};
    piece.got = 0;
    piece.has_crc = false;
    piece.send.iov = nullptr;
    piece.send.iov_count = 0;
    piece.send.exposure = nullptr;
    piece.fetch.iov = nullptr;
    piece.fetch.iov_count = 0;
    return piece;
}

Status Stream::send(Piece& piece, const wire::Body& body, size_t data_length) {
    piece.send.header = {};
    piece.send.header.request = uint64_t{piece.generation} << 32 | piece.index;
    piece.send.header.data_length = static_cast<uint32_t>(data_length);
    piece.send.queue = piece.exposed ? piece.exposure.queue : piece.index % connection_->queues();
    Status status = connection_->send(piece.send, body);
    if (status.ok()) {
        piece.sending = true;
        ++piece.operation->in_flight;
        context_.counters().messages.fetch_add(1, std::memory_order_relaxed);
        return status;
    }
    give_back(piece);
    return status;
}

Status Stream::expose(Piece& piece, const memory::Place& place, const void* address, size_t length,
                      memory::Access access) {
    Status status = connection_->expose(piece.exposure, place, address, length, access);
    if (!status.ok()) return status;
    piece.exposed = piece.by_access = true;
    piece.send.exposure = &piece.exposure;
    return status;
}

void Stream::give_back(Piece& piece) {
    piece.operation = nullptr;
    // The request that would have named it was not sent.
    if (piece.exposed) connection_->end_access(piece.exposure);
    piece.next = free_;
    free_ = &piece;
}

void Stream::on_message(transport::Connection& connection, const wire::Header& header, const wire::Body& body) {
    if (state_ == State::greeting) return welcomed(header, body);
    switch (header.type) {
        case wire::Type::goodbye:
            leaving_ = true;
            why_ = {Code::unavailable, ESHUTDOWN,
                    "target " + context_.address() + ": " + std::string(std::get<wire::Goodbye>(body).text)};
            leave_if_idle();
            break;
        case wire::Type::layout_recall:
            // No request of ours depends on a placement, so none of an older one is in flight.
            recall_done_.header = {};
            recall_done_.header.credits = 1;
            (void)connection.send(recall_done_, wire::RecallDone{std::get<wire::LayoutRecall>(body).map_epoch});
            break;
        case wire::Type::credit:
            break;
        default:
            return answer(header, body);
    }
    if (header.data_length != 0) connection.skip();
}

void Stream::answer(const wire::Header& header, const wire::Body& body) {
    auto index = static_cast<uint32_t>(header.request);
    Piece* piece = index < pieces_.size() ? pieces_[index].get() : nullptr;
    if (piece == nullptr || piece->operation == nullptr || piece->answered ||
        piece->generation != header.request >> 32 || piece->fetch.iov != nullptr)
        return connection_->close(
            {Code::corrupt, EPROTO, "target " + context_.address() + " answered what nobody asked"});
    if (const auto* error = std::get_if<wire::Error>(&body)) {
        piece->status = {Code::io, static_cast<int>(error->error),
                         "node " + std::string(error->node) + ": " + std::string(error->text) + " (" +
                             wire::name_of(error->cause) + ")"};
    } else {
        piece->operation->answered(*piece, header, body);
        if (piece->status.errno_value() == EPROTO) return connection_->close(piece->status);
    }
    if (header.data_length != 0 && piece->fetch.iov != nullptr) return connection_->fetch(piece->fetch);
    if (header.data_length != 0) connection_->skip();
    piece->answered = true;
    if (piece->exposed) return connection_->end_access(piece->exposure);
    settle(*piece);
}

// Over when what was sent is not needed any more, the answer is complete, and the target cannot reach the memory.
void Stream::settle(Piece& piece) {
    if (piece.sending || !piece.answered || piece.exposed || piece.operation == nullptr) return;
    Operation& operation = *piece.operation;
    std::shared_ptr<void> alive = operation.keep_alive();
    --operation.in_flight;
    operation.piece_over(piece);
    give_back(piece);
    context_.piece_over(operation);
    leave_if_idle();
}

void Stream::on_credits(transport::Connection&) { context_.pump(); }

bool Stream::active() const {
    return std::any_of(pieces_.begin(), pieces_.end(), [](const auto& piece) { return piece->operation != nullptr; });
}

void Stream::leave_if_idle() {
    if (leaving_ && connection_ != nullptr && !active()) connection_->close(why_);
}

bool Stream::serves(const Operation& operation) const {
    return std::any_of(pieces_.begin(), pieces_.end(),
                       [&](const auto& piece) { return piece->operation == &operation; });
}

void Stream::cancel(const Operation& operation) {
    if (connection_ == nullptr || state_ != State::ready) return;
    for (const auto& piece : pieces_) {
        if (piece->operation != &operation || piece->answered) continue;
        auto idle = std::find_if(cancels_.begin(), cancels_.end(), [](const auto& send) { return !send->busy; });
        if (idle == cancels_.end()) idle = cancels_.insert(idle, std::make_unique<CancelSend>());
        CancelSend& send = **idle;
        send.header = {};
        send.sent = [](transport::Send& sent, const Status&) { static_cast<CancelSend&>(sent).busy = false; };
        send.busy = connection_->send(send, wire::Cancel{piece->send.header.request}).ok();
    }
}

// ---- the end ----

void Stream::close(const Status& why) {
    if (dial_ != nullptr) dial_->cancel(why);
    if (connection_ != nullptr) connection_->close(why);
}

void Stream::on_closed(transport::Connection&, const Status& why) {
    context_.reactor().disarm(patience_);
    connection_.reset();
    bool was_ready = state_ == State::ready;
    if (was_ready) context_.counters().connections.fetch_sub(1, std::memory_order_relaxed);
    why_ = leaving_ ? why_ : why;
    failed_at_ = steady_clock::now();
    // What never worked, or not for long, is not tried again at once.
    bool worked = was_ready && !leaving_ && failed_at_ - ready_at_ >= retry_after;
    state_ = worked ? State::idle : State::failed;
    leaving_ = false;
    for (size_t i = 0; i < pieces_.size(); ++i) {
        Piece& piece = *pieces_[i];
        if (piece.operation == nullptr) continue;
        piece.sending = false;
        piece.answered = true;
        if (piece.status.ok()) piece.status = {Code::unavailable, why_.errno_value(), why_.message()};
        settle(piece);
    }
    context_.pump();
}

}  // namespace fabric::xds::client
