#include "tests/xds/transport/endpoint.h"

#include <chrono>
#include <cstring>
#include <random>

#include "common/io/buffer_pool.h"
#include "xds/memory/host.h"

namespace fabric::xds::transport {
namespace {

constexpr size_t memory_size = 32 << 20;

// In parts of these lengths, then the rest; no part crosses a block of a pool, which is registered by itself.
std::vector<iovec> split(char* data, size_t length, const std::vector<size_t>& parts) {
    std::vector<iovec> iov;
    size_t at = 0;
    auto add = [&](size_t part) {
        size_t left_in_block =
            io::BufferPool::block_size - reinterpret_cast<uintptr_t>(data + at) % io::BufferPool::block_size;
        iov.push_back({data + at, std::min({part, length - at, left_in_block})});
        at += iov.back().iov_len;
    };
    for (size_t part : parts) add(part);
    while (at < length) add(length - at);
    return iov;
}

uint64_t bytes_of(const wire::ReadManyReply& reply) {
    uint64_t total = 0;
    for (size_t i = 0; i < reply.results.size(); ++i) total += reply.results[i].length;
    return total;
}

}  // namespace

struct Endpoint::Outgoing : Send {
    Endpoint* endpoint = nullptr;
    char* data = nullptr;
    std::vector<iovec> list;
    std::vector<wire::Segment> places;
    bool done = false;
    Status status;
};

struct Endpoint::Incoming : Fetch {
    Endpoint* endpoint = nullptr;
    Arrived message;
    char* data = nullptr;
    size_t length = 0;
    unsigned from = 0;
    std::vector<iovec> list;
    std::vector<wire::Segment> places;
};

// Memory that the peer may use until a request is answered.
struct Endpoint::Lent : Exposure {
    Endpoint* endpoint = nullptr;
    uint64_t request = 0;
    char* data = nullptr;
    Arrived answer;
    bool answered = false;
};

Endpoint::Endpoint(Reactor& reactor) : reactor_(reactor) {
    memory_.reset(static_cast<char*>(std::aligned_alloc(io::BufferPool::block_size, memory_size)));
    place_ = memory::host_place(memory_.get(), memory_size);
}

Endpoint::~Endpoint() {
    close();
    if (made_ && not_connected_.ok()) (void)closed();
}

std::string Endpoint::random_data(size_t length, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::string bytes(length, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    return bytes;
}

char* Endpoint::room(size_t length) {
    if (used_ + length > memory_size) used_ = 0;
    char* place = memory_.get() + used_;
    used_ += length;
    return place;
}

// ---- making ----

void Endpoint::begin(const Make& make) {
    make_ = make;
    reactor_.call([&] {
        make_(reactor_, *this, [this](Result<std::unique_ptr<Connection>> connection) {
            std::lock_guard lock(mutex_);
            if (connection.ok()) connection_ = std::move(*connection);
            not_connected_ = connection.status();
            made_ = true;
            changed_.notify_all();
        });
    });
}

Status Endpoint::connected() {
    std::unique_lock lock(mutex_);
    if (!wait([&] { return made_; }, lock)) return Status::from_errno(ETIMEDOUT, "connection");
    return not_connected_;
}

void Endpoint::start(const Make& make) {
    begin(make);
    (void)connected();
}

// ---- sending ----

Status Endpoint::post(const wire::Body& body, const std::string& data, uint16_t credits,
                      const std::vector<size_t>& parts) {
    return reactor_.call([&] { return post_here(body, data, credits, parts, next_request++, 0, {}); });
}

Status Endpoint::post_here(const wire::Body& body, const std::string& data, uint16_t credits,
                           const std::vector<size_t>& parts, uint64_t request, unsigned queue,
                           const std::vector<wire::Segment>& segments) {
    if (connection_ == nullptr) return Status::from_errno(ECONNRESET, "gone");
    auto send = std::make_unique<Outgoing>();
    Outgoing& kept = *send;
    kept.endpoint = this;
    kept.header.request = request;
    kept.header.credits = credits;
    kept.queue = queue;
    kept.places = segments;
    wire::Body lending = body;
    bool lends = !connection_->carries_data_inline() && segments.empty();
    if (lends) {
        FABRIC_RETURN_IF_ERROR(lend(kept, lending, data));
    } else {
        kept.data = room(data.size());
        std::memcpy(kept.data, data.data(), data.size());
        kept.list = split(kept.data, data.size(), parts);
        kept.header.data_length = static_cast<uint32_t>(data.size());
        kept.iov = kept.list.data();
        kept.iov_count = static_cast<int>(kept.list.size());
        kept.segments = kept.places;
    }
    kept.sent = [](Send& finished, const Status& status) {
        auto& self = static_cast<Outgoing&>(finished);
        std::lock_guard lock(self.endpoint->mutex_);
        self.done = true;
        self.status = status;
        self.endpoint->changed_.notify_all();
    };
    {
        std::lock_guard lock(mutex_);
        outgoing_.push_back(std::move(send));
    }
    Status status = connection_->send(kept, lending);
    if (!status.ok()) {
        if (kept.exposure != nullptr) connection_->end_access(*kept.exposure);
        std::lock_guard lock(mutex_);
        outgoing_.pop_back();
    }
    return status;
}

// For a read room for what it asks, for a write its data.
Status Endpoint::lend(Outgoing& send, wire::Body& body, const std::string& data) {
    auto* read = std::get_if<wire::Read>(&body);
    auto* write = std::get_if<wire::Write>(&body);
    auto* many = std::get_if<wire::ReadMany>(&body);
    size_t length = read != nullptr ? std::min<size_t>(read->length, wire::max_data) : data.size();
    if (many != nullptr)
        for (size_t i = 0; i < many->entries.size(); ++i) length += many->entries[i].length;
    if ((read == nullptr && write == nullptr && many == nullptr) || length == 0 || length > memory_size) return {};
    auto lent = std::make_unique<Lent>();
    lent->endpoint = this;
    lent->request = send.header.request;
    lent->data = room(length);
    std::memcpy(lent->data, data.data(), std::min(data.size(), length));
    lent->ended = [](Exposure& exposure) {
        auto& self = static_cast<Lent&>(exposure);
        if (self.answered) self.endpoint->arrived(std::move(self.answer));
        self.answered = false;
    };
    FABRIC_RETURN_IF_ERROR(connection_->expose(*lent, place_, lent->data, length,
                                               write != nullptr ? memory::Access::read : memory::Access::write));
    auto segments = std::span<const wire::Segment>(&lent->segment, 1);
    if (read != nullptr) read->segments = segments;
    if (write != nullptr) write->segments = segments;
    if (many != nullptr) many->segments = segments;
    send.exposure = lent.get();
    send.queue = lent->queue;
    lent_.push_back(std::move(lent));
    return {};
}

Status Endpoint::send(const wire::Body& body, const std::string& data, uint16_t credits,
                      const std::vector<size_t>& parts) {
    FABRIC_RETURN_IF_ERROR(post(body, data, credits, parts));
    std::unique_lock lock(mutex_);
    Outgoing& last = *outgoing_.back();
    if (!wait([&] { return last.done; }, lock)) return Status::from_errno(ETIMEDOUT, "send");
    return last.status;
}

// ---- receiving ----

void Endpoint::arrived(Arrived message) {
    std::lock_guard lock(mutex_);
    arrived_.push_back(std::move(message));
    changed_.notify_all();
}

void Endpoint::on_message(Connection& connection, const wire::Header& header, const wire::Body& body) {
    if (on_each) on_each(connection);
    if (serves && (std::holds_alternative<wire::Read>(body) || std::holds_alternative<wire::Write>(body)))
        return serve(connection, header, body);
    if (!connection.carries_data_inline()) return take_by_access(connection, header, body);
    incoming_ = std::make_unique<Incoming>();
    incoming_->endpoint = this;
    incoming_->message = {header, wire::print(body), {}};
    if (header.data_length == 0 || skip_data) {
        arrived(incoming_->message);
        if (header.data_length != 0) connection.skip();
        return;
    }
    incoming_->length = header.data_length;
    incoming_->data = room(header.data_length);
    incoming_->list = split(incoming_->data, incoming_->length, fetch_parts);
    incoming_->iov = incoming_->list.data();
    incoming_->iov_count = static_cast<int>(incoming_->list.size());
    incoming_->fetched = [](Fetch& fetch, const Status& status) {
        auto& self = static_cast<Incoming&>(fetch);
        if (!status.ok()) return;
        self.message.data.assign(self.data, self.length);
        self.endpoint->arrived(std::move(self.message));
    };
    if (!hold_data) return connection.fetch(*incoming_);
    std::lock_guard lock(mutex_);
    held_ = true;
    changed_.notify_all();
}

// The answer's data lies in what was lent, once the peer cannot reach it any more.
void Endpoint::take_by_access(Connection& connection, const wire::Header& header, const wire::Body& body) {
    Arrived message{header, wire::print(body), {}};
    for (auto lent = lent_.begin(); lent != lent_.end(); ++lent) {
        if ((*lent)->request != header.request || (*lent)->answered) continue;
        uint64_t length = 0;
        if (const auto* read = std::get_if<wire::ReadReply>(&body)) length = read->length;
        if (const auto* many = std::get_if<wire::ReadManyReply>(&body)) length = bytes_of(*many);
        message.data.assign((*lent)->data, length);
        (*lent)->answer = std::move(message);
        (*lent)->answered = true;
        (*lent)->request = UINT64_MAX;
        connection.end_access(**lent);
        return;
    }
    arrived(std::move(message));
}

void Endpoint::serve(Connection& connection, const wire::Header& header, const wire::Body& body) {
    std::vector<wire::Segment> places;
    auto take = [&](const auto& segments) {
        for (size_t i = 0; i < segments.size(); ++i) places.push_back(segments[i]);
    };
    unsigned queue = connection.arrived_over();
    if (const auto* read = std::get_if<wire::Read>(&body)) {
        take(read->segments);
        std::string data = random_data(read->length, header.request);
        (void)post_here(wire::ReadReply{0, 0, read->length, 0}, data, 1, serve_parts, header.request, queue, places);
        return;
    }
    const auto& write = std::get<wire::Write>(body);
    take(write.segments);
    fetching_.push_back(std::make_unique<Incoming>());
    Incoming& incoming = *fetching_.back();
    incoming.endpoint = this;
    incoming.message = {header, wire::print(body), {}};
    incoming.from = queue;
    incoming.length = write.length;
    incoming.data = room(write.length);
    incoming.list = split(incoming.data, incoming.length, fetch_parts);
    incoming.places = places;
    incoming.iov = incoming.list.data();
    incoming.iov_count = static_cast<int>(incoming.list.size());
    incoming.segments = incoming.places;
    incoming.queue = queue;
    incoming.Fetch::fetched = [](Fetch& fetch, const Status& status) {
        auto& self = static_cast<Incoming&>(fetch);
        if (status.ok()) self.endpoint->fetched(self);
    };
    connection.fetch(incoming);
}

void Endpoint::fetched(Incoming& incoming) {
    incoming.message.data.assign(incoming.data, incoming.length);
    uint64_t request = incoming.message.header.request;
    arrived(std::move(incoming.message));
    // An answer carries no data: its places stay empty.
    if (connection_ == nullptr) return;
    auto send = std::make_unique<Outgoing>();
    Outgoing& kept = *send;
    kept.endpoint = this;
    kept.header.request = request;
    kept.header.credits = 1;
    kept.queue = incoming.from;
    kept.sent = [](Send& finished, const Status&) {
        auto& self = static_cast<Outgoing&>(finished);
        std::lock_guard lock(self.endpoint->mutex_);
        self.done = true;
    };
    {
        std::lock_guard lock(mutex_);
        outgoing_.push_back(std::move(send));
    }
    (void)connection_->send(kept, wire::WriteReply{0, 0, incoming.length, 0});
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

// ---- the end ----

void Endpoint::on_closed(Connection&, const Status& why) {
    connection_.reset();
    std::lock_guard lock(mutex_);
    closed_ = true;
    why_ = why;
    changed_.notify_all();
}

void Endpoint::close() {
    with_connection([](Connection& connection) { connection.close({}); });
}

void Endpoint::with_connection(const std::function<void(Connection&)>& call) {
    reactor_.call([&] {
        if (connection_ != nullptr) call(*connection_);
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
