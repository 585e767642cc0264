#include "xds/client/context.h"

#include <netdb.h>

#include <algorithm>
#include <cstring>

#include "xds/client/file.h"
#include "xds/memory/host.h"
#include "xds/security/agent.h"
#include "xds/transport/tcp/tcp_address.h"

namespace fabric::xds::client {
namespace {

using std::chrono::steady_clock;

thread_local Waiting waiting;

constexpr std::chrono::milliseconds rdma_attempt{2000};
constexpr std::chrono::seconds rdma_again{60};

}  // namespace

Context::Context(const Settings& settings)
    : settings_(settings),
      staging_(std::max<size_t>(settings.staging_bytes / settings.piece, 1), settings.piece),
      copier_(std::max<size_t>(settings.staging_bytes / settings.piece, 1)) {}

Result<std::shared_ptr<Context>> Context::open(const Settings& settings) {
    std::shared_ptr<Context> context(new Context(settings));
    FABRIC_RETURN_IF_ERROR(context->resolve());
    if (!settings.agent.empty()) {
        Result<security::Issued> issued = security::ask_agent(settings.agent);
        if (!issued.ok()) return issued.status();
        context->ticket_ = {issued->ticket, issued->secret, issued->cluster};
    }
    Result<std::unique_ptr<transport::Reactor>> reactor = transport::Reactor::start("xds_client");
    if (!reactor.ok()) return reactor.status();
    context->reactor_ = std::move(*reactor);
    for (unsigned i = 0; i < settings.streams; ++i) context->streams_.push_back(std::make_unique<Stream>(*context, i));

    // Nothing to send: it is over when the first stream is ready, or failed.
    struct First : Operation {
        Context* context;
        bool has_more() const override { return !failed() && !context->streams_[0]->usable(); }
        Status send_next(Stream&, Piece&) override { return {}; }
        void answered(Piece&, const wire::Header&, const wire::Body&) override {}
        void piece_over(Piece&) override {}
    } first;
    first.context = context.get();
    first.limit = settings.timeout;
    Status status = context->run(first);
    if (!status.ok()) {
        context->close();
        return status;
    }
    return context;
}

Context::~Context() = default;

Status Context::resolve() {
    Result<transport::Addresses> addresses = transport::resolve(settings_.address, 0);
    if (!addresses.ok())
        return {addresses.status().code(), addresses.status().errno_value(), "target: " + addresses.status().message()};
    std::memcpy(&target_, (*addresses)->ai_addr, (*addresses)->ai_addrlen);
    target_length_ = (*addresses)->ai_addrlen;
    return {};
}

// ---- operations ----

Status Context::submit(Operation& operation) {
    operation.context_ = this;
    operation.outcome_ = {};
    operation.in_flight = 0;
    operation.post_.run = [](transport::Task& task) {
        Operation& self = *static_cast<Operation::Part<transport::Task>&>(task).operation;
        self.context_->arrived(self);
    };
    std::shared_lock lock(submit_mutex_);
    if (closed_) return {Code::unavailable, ECANCELED, "the context was closed"};
    counters_.requests.fetch_add(1, std::memory_order_relaxed);
    reactor_->post(operation.post_);
    return {};
}

Status Context::run(Operation& operation) {
    waiting.begin();
    operation.waiting_ = &waiting;
    FABRIC_RETURN_IF_ERROR(submit(operation));
    waiting.wait();
    return operation.status();
}

void Context::arrived(Operation& operation) {
    ++unfinished_;
    operation.timer_.deadline = steady_clock::now() + operation.limit;
    operation.timer_.expired = [](transport::Timer& timer) {
        Operation& self = *static_cast<Operation::Part<transport::Timer>&>(timer).operation;
        self.context_->expired(self);
    };
    reactor_->arm(operation.timer_);
    if (closing_) operation.fail({Code::unavailable, ECANCELED, "the context was closed"});
    operation.begin();
    link(operation);
    pump();
}

// In-flight messages are ended by closing their connections: only then is the caller's memory free.
void Context::expired(Operation& operation) {
    Status late(
        Code::timeout, ETIMEDOUT,
        "no answer from target " + settings_.address + " within " + std::to_string(operation.limit.count()) + " ms");
    operation.fail(late);
    for (auto& stream : streams_)
        if (stream->serves(operation)) stream->close(late);
    pump();
}

void Context::cancel(Operation& operation) {
    operation.fail({Code::unavailable, ECANCELED, "cancelled"});
    for (auto& stream : streams_) stream->cancel(operation);
    pump();
}

void Context::link(Operation& operation) {
    operation.previous_ = last_;
    operation.next_ = nullptr;
    (last_ == nullptr ? first_ : last_->next_) = &operation;
    last_ = &operation;
    operation.queued_ = true;
}

void Context::unlink(Operation& operation) {
    (operation.previous_ == nullptr ? first_ : operation.previous_->next_) = operation.next_;
    (operation.next_ == nullptr ? last_ : operation.next_->previous_) = operation.previous_;
    operation.queued_ = false;
}

void Context::pump() {
    pump_again_ = true;
    if (pumping_) return;
    pumping_ = true;
    while (std::exchange(pump_again_, false)) {
        for (Operation* operation = first_; operation != nullptr;) {
            Operation* next = operation->next_;
            Pushed pushed = push(*operation);
            if (!operation->has_more()) {
                unlink(*operation);
                finish_if_over(*operation);
            }
            if (pushed == Pushed::no_staging) break;
            operation = next;
        }
    }
    pumping_ = false;
}

Context::Pushed Context::push(Operation& operation) {
    while (operation.has_more()) {
        Status problem;
        Stream* stream = choose(operation, problem);
        if (stream == nullptr) {
            if (problem.ok()) return Pushed::blocked;
            operation.fail(problem);
            return Pushed::all;
        }
        Status sent = operation.send_next(*stream, stream->take_piece(operation));
        if (sent.ok()) continue;
        if (sent.errno_value() == EAGAIN) return Pushed::no_staging;
        if (sent.errno_value() == EBUSY) return Pushed::blocked;
        operation.fail(sent);
    }
    return Pushed::all;
}

// A stream that takes the next message, or null: with a problem, when none will, else when one will later.
Stream* Context::choose(Operation& operation, Status& problem) {
    File* file = operation.file();
    unsigned count = stream_count();
    unsigned home = file != nullptr ? file->home() : next_stream_;
    unsigned wanted = operation.is_large() ? count : 1;
    bool pending = false;
    for (unsigned i = 0; i < count; ++i) {
        Stream& stream = *streams_[(operation.is_large() ? next_stream_ + i : home + i) % count];
        // The others are only asked when the home stream has failed.
        if (i >= wanted && (pending || problem.ok())) break;
        stream.connect();
        if (stream.state() == Stream::State::failed) {
            problem = stream.why();
            continue;
        }
        pending = true;
        if (!stream.usable()) continue;
        if (file != nullptr) {
            File::Readiness readiness = file->prepare(stream);
            if (readiness == File::Readiness::failed) {
                problem = file->why();
                return nullptr;
            }
            if (readiness == File::Readiness::pending) continue;
        }
        if (!stream.has_room()) continue;
        if (operation.is_large() || file == nullptr) next_stream_ = (stream.index() + 1) % count;
        return &stream;
    }
    if (pending) problem = {};
    return nullptr;
}

void Context::piece_over(Operation& operation) {
    if (!operation.is_internal()) {
        if (closing_) operation.fail({Code::unavailable, ECANCELED, "the context was closed"});
        if (operation.has_more() && !operation.queued_) link(operation);
        if (!operation.queued_) finish_if_over(operation);
    }
    pump();
}

void Context::finish_if_over(Operation& operation) {
    if (operation.queued_ || operation.in_flight != 0 || operation.has_more()) return;
    reactor_->disarm(operation.timer_);
    if (operation.failed()) counters_.errors.fetch_add(1, std::memory_order_relaxed);
    --unfinished_;
    operation.ending();
    operation.done();
    if (unfinished_ == 0 && all_finished_ != nullptr) std::exchange(all_finished_, nullptr)->set_value();
}

void Context::close() {
    {
        std::unique_lock lock(submit_mutex_);
        if (std::exchange(closed_, true) || reactor_ == nullptr) return;
    }
    std::promise<void> finished;
    std::future<void> over = finished.get_future();
    reactor_->call([&] {
        closing_ = true;
        Status closed(Code::unavailable, ECANCELED, "the context was closed");
        for (Operation* operation = first_; operation != nullptr; operation = operation->next_) operation->fail(closed);
        for (auto& stream : streams_) stream->close(closed);
        all_finished_ = &finished;
        pump();
        if (unfinished_ == 0 && all_finished_ != nullptr) std::exchange(all_finished_, nullptr)->set_value();
    });
    over.get();
    reactor_->call([&] {
        if (verbs_lane_ != nullptr) verbs_lane_->stop();
    });
    // Waits for the connections to end. Their last callbacks still ask for the reactor, which reset() would have hidden
    // from them already.
    delete reactor_.get();
    (void)reactor_.release();
    // Handles of files may live on: they are not to keep a device in use.
    verbs_lane_.reset();
    domains_.clear();
    copier_.stop();
    staging_.clear();
}

// ---- memory ----

uint64_t Context::remember(const void* address, size_t length) {
    memory::Place place = memory::host_place(address, length);
    std::unique_lock lock(remembered_mutex_);
    remembered_.push_back(place);
    return place.allocation.id;
}

void Context::forget(uint64_t number) {
    std::unique_lock lock(remembered_mutex_);
    std::erase_if(remembered_, [&](const memory::Place& place) { return place.allocation.id == number; });
    lock.unlock();
    domains_.forget(memory::host(), number);
}

memory::Place Context::look_up(const memory::Place& found, const void* address, size_t length) const {
    if (found.allocation.id != 0 || !found.kind->host_accessible()) return found;
    std::shared_lock lock(remembered_mutex_);
    for (const memory::Place& place : remembered_)
        if (place.allocation.contains(address, length)) return place;
    return found;
}

// ---- RDMA ----

bool Context::wants_rdma(unsigned stream) const {
    if (stream != 0 || settings_.mode == Mode::tcp) return false;
    return settings_.mode == Mode::direct_only || steady_clock::now() >= next_rdma_;
}

// Where TCP would do, nobody is to wait long for a network that carries no RDMA.
std::chrono::milliseconds Context::rdma_patience() const {
    return settings_.mode == Mode::direct_only ? patience() : std::min(patience() / 2, rdma_attempt);
}

Result<transport::VerbsLane*> Context::verbs_lane() {
    if (verbs_lane_ == nullptr) {
        Result<std::unique_ptr<transport::VerbsLane>> opened = transport::VerbsLane::open(*reactor_);
        if (!opened.ok()) return opened.status();
        verbs_lane_ = std::move(*opened);
    }
    return verbs_lane_.get();
}

void Context::no_rdma(const std::string& why) {
    next_rdma_ = steady_clock::now() + rdma_again;
    std::lock_guard lock(why_not_direct_mutex_);
    why_not_direct_ = why;
}

void Context::connected_over(unsigned stream, bool rdma) {
    if (stream == 0) over_rdma_.store(rdma, std::memory_order_relaxed);
}

std::string Context::why_not_direct() const {
    if (settings_.mode == Mode::tcp) return "mode tcp";
    std::lock_guard lock(why_not_direct_mutex_);
    return why_not_direct_;
}

}  // namespace fabric::xds::client
