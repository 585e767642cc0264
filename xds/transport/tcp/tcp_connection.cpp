#include "xds/transport/tcp/tcp_connection.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <utility>

#include "xds/transport/tcp/tcp_address.h"

namespace fabric::xds::transport {
namespace {

// What skipped data is read into; nobody looks at it.
std::span<std::byte> waste() {
    static thread_local std::vector<std::byte> room(256 << 10);
    return room;
}

size_t length_of(const Send& send) { return send.bytes.size() + send.header.data_length; }

// Adds the parts of [skip, skip + limit) of `from` to `to`, from `count` on. Returns the new count.
int add_parts(const iovec* from, int from_count, size_t skip, size_t limit, std::span<iovec> to, int count) {
    for (int i = 0; i < from_count && limit > 0 && count < static_cast<int>(to.size()); ++i) {
        if (skip >= from[i].iov_len) {
            skip -= from[i].iov_len;
            continue;
        }
        size_t length = std::min(from[i].iov_len - skip, limit);
        to[static_cast<size_t>(count++)] = {static_cast<char*>(from[i].iov_base) + skip, length};
        limit -= length;
        skip = 0;
    }
    return count;
}

}  // namespace

TcpConnection::TcpConnection(Reactor& reactor, Owner& owner, UniqueFd socket)
    : Connection(reactor, owner),
      socket_(std::move(socket)),
      peer_(peer_name(socket_.get())),
      body_(new std::byte[wire::max_body]) {
    // On a non-blocking socket io_uring would report EAGAIN instead of waiting.
    fcntl(socket_.get(), F_SETFL, fcntl(socket_.get(), F_GETFL) & ~O_NONBLOCK);
    int one = 1;
    // Requests and replies are written whole: waiting for more would only delay them.
    setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(socket_.get(), SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    unsigned dead_after_ms = 30'000;
    setsockopt(socket_.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &dead_after_ms, sizeof dead_after_ms);
    out_.connection = in_.connection = this;
    out_.complete = [](Operation& operation, int result) { static_cast<Half&>(operation).connection->sent(result); };
    in_.complete = [](Operation& operation, int result) { static_cast<Half&>(operation).connection->received(result); };
    next_message();
}

// ---- sending ----

void TcpConnection::enqueue(Send& send) {
    send.next = nullptr;
    if (first_send_ == nullptr)
        first_send_ = &send;
    else
        last_send_->next = &send;
    last_send_ = &send;
    if (!out_.busy && !completing_) start_send();
}

// As many queued messages as the array holds, in one call.
void TcpConnection::start_send() {
    int count = 0;
    size_t skip = sent_of_first_;
    for (const Send* send = first_send_; send != nullptr && count < static_cast<int>(out_.iov.size()) - 1;
         send = static_cast<const Send*>(send->next)) {
        iovec head{const_cast<std::byte*>(send->bytes.data()), send->bytes.size()};
        count = add_parts(&head, 1, skip, send->bytes.size(), out_.iov, count);
        size_t into_data = skip > send->bytes.size() ? skip - send->bytes.size() : 0;
        size_t data_left = send->header.data_length - std::min<size_t>(into_data, send->header.data_length);
        int before = count;
        count = add_parts(send->iov, send->iov_count, into_data, data_left, out_.iov, count);
        size_t added = 0;
        for (int i = before; i < count; ++i) added += out_.iov[static_cast<size_t>(i)].iov_len;
        if (added < data_left) break;  // the array is full
        skip = 0;
    }
    out_.message = {};
    out_.message.msg_iov = out_.iov.data();
    out_.message.msg_iovlen = static_cast<size_t>(count);
    reactor().submit(out_, [&](io_uring_sqe* sqe) {
        io_uring_prep_sendmsg(sqe, socket_.get(), &out_.message, MSG_NOSIGNAL | MSG_WAITALL);
    });
}

void TcpConnection::sent(int result) {
    if (result > 0)
        complete_sends(static_cast<size_t>(result));
    else if (result != -EINTR && result != -EAGAIN)
        close(Status::from_errno(result == 0 ? EPIPE : -result, "send to " + peer_));
    if (closing_) return finish_close();
    if (first_send_ != nullptr && !out_.busy) start_send();
}

void TcpConnection::complete_sends(size_t bytes) {
    sent_of_first_ += bytes;
    completing_ = true;
    while (first_send_ != nullptr && sent_of_first_ >= length_of(*first_send_)) {
        Send* done = first_send_;
        sent_of_first_ -= length_of(*done);
        first_send_ = static_cast<Send*>(done->next);
        if (first_send_ == nullptr) last_send_ = nullptr;
        done->sent(*done, {});
    }
    completing_ = false;
}

// ---- receiving ----

void TcpConnection::next_message() {
    receiving_ = Receiving::header;
    receive(header_.data(), header_.size());
}

// The next part of the stream, all of it before anything else happens.
void TcpConnection::receive(void* to, size_t length) {
    received_ = 0;
    wanted_ = length;
    reactor().submit(in_, [&](io_uring_sqe* sqe) { io_uring_prep_recv(sqe, socket_.get(), to, length, MSG_WAITALL); });
}

void TcpConnection::receive_data() {
    size_t left = data_length_ - received_;
    int count = 0;
    if (receiving_ == Receiving::data) {
        count = add_parts(fetch_->iov, fetch_->iov_count, received_, left, in_.iov, 0);
    } else {
        in_.iov[0] = {waste().data(), std::min(waste().size(), left)};
        count = 1;
    }
    in_.message = {};
    in_.message.msg_iov = in_.iov.data();
    in_.message.msg_iovlen = static_cast<size_t>(count);
    reactor().submit(in_,
                     [&](io_uring_sqe* sqe) { io_uring_prep_recvmsg(sqe, socket_.get(), &in_.message, MSG_WAITALL); });
}

void TcpConnection::received(int result) {
    if (result == -EINTR || result == -EAGAIN) result = -EINTR;
    if (result == 0) {
        bool between = receiving_ == Receiving::header && received_ == 0;
        close({Code::unavailable, ECONNRESET,
               peer_ + (between ? " closed the connection" : " closed the connection in the middle of a message")});
    } else if (result < 0 && result != -EINTR) {
        close(Status::from_errno(-result, "receive from " + peer_));
    }
    if (closing_) return finish_close();
    size_t bytes = result > 0 ? static_cast<size_t>(result) : 0;
    switch (receiving_) {
        case Receiving::header:
        case Receiving::body: {
            received_ += bytes;
            if (received_ < wanted_) {
                std::byte* to = receiving_ == Receiving::header ? header_.data() : body_.get();
                reactor().submit(in_, [&](io_uring_sqe* sqe) {
                    io_uring_prep_recv(sqe, socket_.get(), to + received_, wanted_ - received_, MSG_WAITALL);
                });
                return;
            }
            return receiving_ == Receiving::header ? header_received() : body_received();
        }
        case Receiving::data:
        case Receiving::skipped:
            return data_received(bytes);
        case Receiving::owner:
            return;
    }
}

void TcpConnection::header_received() {
    Result<wire::Header> header = wire::decode_header(header_);
    if (!header.ok()) {
        close({Code::corrupt, EPROTO, peer_ + ": " + header.status().message()});
        return;
    }
    body_length_ = header->body_length;
    data_length_ = header->data_length;
    if (body_length_ == 0) return body_received();
    receiving_ = Receiving::body;
    receive(body_.get(), body_length_);
}

void TcpConnection::body_received() {
    receiving_ = Receiving::owner;
    received_ = 0;
    Status status = deliver(header_, {body_.get(), body_length_});
    if (!status.ok()) close({status.code(), status.errno_value(), peer_ + ": " + status.message()});
    if (closing_) return finish_close();
    if (data_length_ == 0) next_message();
}

void TcpConnection::data_received(size_t bytes) {
    received_ += bytes;
    if (received_ < data_length_) return receive_data();
    data_length_ = 0;
    if (Fetch* done = std::exchange(fetch_, nullptr)) done->fetched(*done, {});
    if (closing_) return finish_close();
    next_message();
}

void TcpConnection::fetch(Fetch& fetch) {
    fetch_ = &fetch;
    if (closing_) return;  // finish_close() will tell
    receiving_ = Receiving::data;
    receive_data();
}

void TcpConnection::skip() {
    if (closing_ || data_length_ == 0) return;
    receiving_ = Receiving::skipped;
    receive_data();
}

// ---- the end ----

void TcpConnection::close(const Status& why) {
    if (closing_) return;
    closing_ = true;
    why_ = why.ok() ? Status(Code::unavailable, ECONNRESET, "the connection to " + peer_ + " was closed") : why;
    // Wakes what waits in the kernel; the buffers go back when it has ended.
    ::shutdown(socket_.get(), SHUT_RDWR);
    finish_close();
}

// When the kernel uses nothing any more, everything goes back to the owner: in a task, so that nobody is called back
// from within a call of their own.
void TcpConnection::finish_close() {
    if (out_.busy || in_.busy || finishing_) return;
    finishing_ = true;
    last_task_.connection = this;
    last_task_.run = [](Task& task) {
        TcpConnection& connection = *static_cast<Last&>(task).connection;
        connection.socket_.reset();
        while (Send* send = connection.first_send_) {
            connection.first_send_ = static_cast<Send*>(send->next);
            send->sent(*send, connection.why_);
        }
        if (Fetch* fetch = std::exchange(connection.fetch_, nullptr)) fetch->fetched(*fetch, connection.why_);
        // A copy: the owner may destroy the connection before it looks.
        const Status why = connection.why_;
        connection.owner_.on_closed(connection, why);
    };
    reactor().post(last_task_);
}

}  // namespace fabric::xds::transport
