#include "tests/xds/transport/endpoint.h"

#include <chrono>

namespace fabric::xds::transport {
namespace {

std::vector<iovec> split(std::string& data, const std::vector<size_t>& parts) {
    std::vector<iovec> iov;
    size_t at = 0;
    for (size_t part : parts) {
        size_t length = std::min(part, data.size() - at);
        iov.push_back({data.data() + at, length});
        at += length;
    }
    if (at < data.size()) iov.push_back({data.data() + at, data.size() - at});
    return iov;
}

}  // namespace

struct Endpoint::Outgoing : Send {
    Endpoint* endpoint = nullptr;
    std::string data;
    std::vector<iovec> list;
    bool done = false;
    Status status;
};

struct Endpoint::Incoming : Fetch {
    Endpoint* endpoint = nullptr;
    Arrived message;
    std::vector<iovec> list;
};

Endpoint::Endpoint(Reactor& reactor) : reactor_(reactor) {}

Endpoint::~Endpoint() {
    close();
    (void)closed();
}

void Endpoint::start(const Make& make) {
    reactor_.call([&] { connection_ = make(reactor_, *this); });
}

Status Endpoint::post(const wire::Body& body, const std::string& data, uint16_t credits,
                      const std::vector<size_t>& parts) {
    auto send = std::make_unique<Outgoing>();
    send->endpoint = this;
    send->data = data;
    send->list = split(send->data, parts);
    send->header.request = next_request++;
    send->header.credits = credits;
    send->header.data_length = static_cast<uint32_t>(data.size());
    send->iov = send->list.data();
    send->iov_count = static_cast<int>(send->list.size());
    send->sent = [](Send& finished, const Status& status) {
        auto& self = static_cast<Outgoing&>(finished);
        std::lock_guard lock(self.endpoint->mutex_);
        self.done = true;
        self.status = status;
        self.endpoint->changed_.notify_all();
    };
    return reactor_.call([&]() -> Status {
        if (connection_ == nullptr) return Status::from_errno(ECONNRESET, "gone");
        Outgoing& kept = *send;
        {
            std::lock_guard lock(mutex_);
            outgoing_.push_back(std::move(send));
        }
        Status status = connection_->send(kept, body);
        if (!status.ok()) {
            std::lock_guard lock(mutex_);
            outgoing_.pop_back();
        }
        return status;
    });
}

Status Endpoint::send(const wire::Body& body, const std::string& data, uint16_t credits,
                      const std::vector<size_t>& parts) {
    FABRIC_RETURN_IF_ERROR(post(body, data, credits, parts));
    std::unique_lock lock(mutex_);
    Outgoing& last = *outgoing_.back();
    if (!wait([&] { return last.done; }, lock)) return Status::from_errno(ETIMEDOUT, "send");
    return last.status;
}

void Endpoint::on_message(Connection& connection, const wire::Header& header, const wire::Body& body) {
    incoming_ = std::make_unique<Incoming>();
    incoming_->endpoint = this;
    incoming_->message = {header, wire::print(body), {}};
    if (on_each) on_each(connection);
    if (header.data_length == 0 || skip_data) {
        {
            std::lock_guard lock(mutex_);
            arrived_.push_back(incoming_->message);
            changed_.notify_all();
        }
        if (header.data_length != 0) connection.skip();
        return;
    }
    incoming_->message.data.resize(header.data_length);
    incoming_->list = split(incoming_->message.data, fetch_parts);
    incoming_->iov = incoming_->list.data();
    incoming_->iov_count = static_cast<int>(incoming_->list.size());
    incoming_->fetched = [](Fetch& fetch, const Status& status) {
        auto& self = static_cast<Incoming&>(fetch);
        if (!status.ok()) return;
        std::lock_guard lock(self.endpoint->mutex_);
        self.endpoint->arrived_.push_back(std::move(self.message));
        self.endpoint->changed_.notify_all();
    };
    if (!hold_data) return connection.fetch(*incoming_);
    std::lock_guard lock(mutex_);
    held_ = true;
    changed_.notify_all();
}

void Endpoint::release() {
    {
        std::unique_lock lock(mutex_);
        if (!wait([&] { return held_ || closed_; }, lock) || closed_) return;
        held_ = false;
    }
    reactor_.call([&] {
        hold_data = false;
        if (connection_ != nullptr) connection_->fetch(*incoming_);
    });
}

void Endpoint::on_closed(Connection&, const Status& why) {
    connection_.reset();
    std::lock_guard lock(mutex_);
    closed_ = true;
    why_ = why;
    changed_.notify_all();
}

void Endpoint::close() {
    reactor_.call([&] {
        if (connection_ != nullptr) connection_->close({});
    });
}

bool Endpoint::wait(const std::function<bool()>& condition, std::unique_lock<std::mutex>& lock) {
    return changed_.wait_for(lock, std::chrono::seconds(20), condition);
}

Result<Arrived> Endpoint::next() {
    std::unique_lock lock(mutex_);
    if (!wait([&] { return !arrived_.empty() || closed_; }, lock)) return Status::from_errno(ETIMEDOUT, "next message");
    if (arrived_.empty()) return why_;
    Arrived first = std::move(arrived_.front());
    arrived_.pop_front();
    return first;
}

Status Endpoint::closed() {
    std::unique_lock lock(mutex_);
    if (!wait([&] { return closed_; }, lock)) return Status::from_errno(ETIMEDOUT, "end of the connection");
    return why_;
}

size_t Endpoint::credits() {
    return reactor_.call([&] { return connection_ == nullptr ? size_t{0} : size_t{connection_->credits()}; });
}

size_t Endpoint::sends_in_progress() {
    std::lock_guard lock(mutex_);
    size_t count = 0;
    for (const auto& send : outgoing_) count += !send->done;
    return count;
}

}  // namespace fabric::xds::transport
