#include "xds/target/session.h"

#include <algorithm>
#include <utility>

#include "common/log.h"
#include "xds/target/operations.h"
#include "xds/target/target.h"

namespace fabric::xds::target {
namespace {

using std::chrono::steady_clock;

constexpr size_t largest_buffer = 1 << 20;
constexpr std::chrono::seconds hello_patience{10};

// What the pool lends for so many bytes: 4 KiB times a power of four.
size_t lent_for(size_t bytes) {
    size_t lent = bytes / largest_buffer * largest_buffer;
    size_t rest = bytes - lent;
    if (rest == 0) return lent;
    size_t size = 4096;
    while (size < rest) size *= 4;
    return lent + size;
}

}  // namespace

wire::Cause cause_of(const Status& status) {
    switch (status.errno_value()) {
        case EACCES:
        case EPERM:
            return wire::Cause::access;
        case ENOENT:
        case ESTALE:
        case EBADF:
            return wire::Cause::not_found;
        case EIO:
            return wire::Cause::device;
        default:
            return wire::Cause::file_system;
    }
}

Session::Session(Target& target, transport::Reactor& reactor, io::BufferPool& pool)
    : target_(target), reactor_(reactor), pool_(pool) {
    greeting_.sent = [](transport::Send&, const Status&) {};
    recall_.session = this;
    recall_.sent = [](transport::Send& send, const Status& status) {
        auto& recall = static_cast<Recall&>(send);
        recall.busy = false;
        if (status.ok()) recall.session->recall(0);
    };
    goodbye_.session = this;
    goodbye_.sent = [](transport::Send& send, const Status&) {
        auto& goodbye = static_cast<Goodbye&>(send);
        goodbye.gone = true;
        goodbye.session->close_if_idle();
    };
    patience_.session = this;
    patience_.expired = [](transport::Timer& timer) {
        static_cast<Patience&>(timer).session->close(
            {Code::timeout, ETIMEDOUT, "no hello came within " + std::to_string(hello_patience.count()) + " s"});
    };
}

Session::~Session() = default;

void Session::start(std::unique_ptr<transport::Connection> connection) {
    connection_ = std::move(connection);
    patience_.deadline = steady_clock::now() + hello_patience;
    reactor_.arm(patience_);
}

// ---- messages ----

void Session::on_message(transport::Connection& connection, const wire::Header& header, const wire::Body& body) {
    if (!greeted_) {
        if (const auto* hello = std::get_if<wire::Hello>(&body); hello != nullptr && header.data_length == 0)
            return greet(header, *hello);
        return connection.close({Code::corrupt, EPROTO, "the first message was not a hello"});
    }
    if (const auto* victim = std::get_if<wire::Cancel>(&body)) {
        cancel(victim->victim);
    } else if (wire::needs_credit(header.type) && header.type != wire::Type::layout_recall) {
        if (active_.contains(header.request))
            return connection.close({Code::corrupt, EPROTO, "a request's number was used again before its answer"});
        Job& job = take_job(header);
        if (draining_)
            fail(job, {Code::unavailable, ESHUTDOWN, "this target is going down"}, wire::Cause::draining);
        else
            dispatch(job, body);
        return;
    } else if (header.type != wire::Type::recall_done && header.type != wire::Type::credit &&
               header.type != wire::Type::goodbye) {
        return connection.close({Code::corrupt, EPROTO, std::string("a client sent ") + wire::name_of(header.type)});
    }
    if (header.data_length != 0) connection.skip();
}

void Session::dispatch(Job& job, const wire::Body& body) {
    if (const auto* message = std::get_if<wire::Read>(&body)) return start_read(*this, job, *message);
    if (const auto* message = std::get_if<wire::Write>(&body)) return start_write(*this, job, *message);
    if (const auto* message = std::get_if<wire::Open>(&body)) return start_open(*this, job, *message);
    if (const auto* message = std::get_if<wire::Close>(&body)) return start_close(*this, job, *message);
    if (const auto* message = std::get_if<wire::ReadMany>(&body)) return start_read_many(*this, job, *message);
    if (const auto* message = std::get_if<wire::Stat>(&body)) return start_stat(*this, job, *message);
    if (const auto* message = std::get_if<wire::Flush>(&body)) return start_flush(*this, job, *message);
    if (const auto* message = std::get_if<wire::Layout>(&body)) return start_layout(*this, job, *message);
    fail(job, {Code::invalid, EOPNOTSUPP, "this target does not know that request"}, wire::Cause::not_supported);
}

// A job that has not begun its work is answered when it would begin; one that has is answered by its result.
void Session::cancel(uint64_t victim) {
    if (auto found = active_.find(victim); found != active_.end()) found->second->cancelled = true;
}

void Session::on_credits(transport::Connection&) {
    if (recalled_epoch_ != 0) recall(recalled_epoch_);
}

void Session::recall(uint64_t epoch) {
    recalled_epoch_ = std::max(recalled_epoch_, epoch);
    if (recalled_epoch_ == 0 || recall_.busy || !greeted_ || connection_ == nullptr) return;
    recall_.header = {};
    if (!connection_->send(recall_, wire::LayoutRecall{recalled_epoch_}).ok()) return;  // on_credits() comes back
    recall_.busy = true;
    recalled_epoch_ = 0;
}

void Session::drain() {
    if (std::exchange(draining_, true) || connection_ == nullptr) return;
    goodbye_.header = {};
    wire::Goodbye message{wire::Cause::draining, "this target is going down"};
    goodbye_.gone = !greeted_ || !connection_->send(goodbye_, message).ok();
    close_if_idle();
}

void Session::close_if_idle() {
    if (draining_ && goodbye_.gone && active_.empty()) close({});
}

void Session::close(const Status& why) {
    if (connection_ != nullptr) connection_->close(why);
}

void Session::on_closed(transport::Connection&, const Status& why) {
    log::debug("XDS client {}: {}", connection_->peer(), why.message());
    reactor_.disarm(patience_);
    connection_.reset();
    // Those who wait in our own queue hold nothing; those elsewhere come back by themselves.
    while (Job* job = first_waiting_) {
        first_waiting_ = job->next;
        release(*job);
    }
    if (active_.empty()) target_.remove(*this);
}

// ---- jobs ----

Job& Session::take_job(const wire::Header& header) {
    if (free_jobs_ == nullptr) {
        jobs_.push_back(std::make_unique<Job>(*this));
        free_jobs_ = jobs_.back().get();
        free_jobs_->next = nullptr;
    }
    Job& job = *free_jobs_;
    free_jobs_ = job.next;
    job.request = header.request;
    job.type = header.type;
    job.cancelled = false;
    job.holds_data = header.data_length != 0;
    job.length = header.data_length;
    job.deadline = steady_clock::time_point::max();
    job.segments.clear();
    job.places.clear();
    job.queue = connection_->arrived_over();
    job.invalidates = false;
    active_.emplace(job.request, &job);
    return job;
}

bool Session::take_segments(Job& job, const wire::List<wire::Segment>& segments, uint32_t flags, uint64_t length) {
    if (data_is_inline()) return true;
    uint64_t room = 0;
    for (size_t i = 0; i < segments.size(); ++i) {
        job.segments.push_back(segments[i]);
        room += job.segments.back().length;
    }
    job.invalidates = (flags & wire::io_flags::invalidate) != 0 && !job.segments.empty();
    if (room >= length) return true;
    fail(job,
         {Code::invalid, EINVAL,
          "the request's segments have " + std::to_string(room) + " bytes for " + std::to_string(length)},
         wire::Cause::bad_request);
    return false;
}

std::shared_ptr<OpenFile> Session::file(uint32_t handle) const {
    return handle < files_.size() ? files_[handle] : nullptr;
}

Result<uint32_t> Session::add_file(std::shared_ptr<OpenFile> file) {
    if (!free_handles_.empty()) {
        uint32_t handle = free_handles_.back();
        free_handles_.pop_back();
        files_[handle] = std::move(file);
        return handle;
    }
    if (files_.size() >= target_.config().open_files)
        return Status(Code::unavailable, ENFILE,
                      std::to_string(files_.size()) + " files are open on this connection, which is its limit");
    files_.push_back(std::move(file));
    return static_cast<uint32_t>(files_.size() - 1);
}

std::shared_ptr<OpenFile> Session::remove_file(uint32_t handle) {
    std::shared_ptr<OpenFile> removed = file(handle);
    if (removed != nullptr) {
        files_[handle] = nullptr;
        free_handles_.push_back(handle);
    }
    return removed;
}

// Ends a job that nobody waits for any more. True: it did.
bool Session::unwanted(Job& job) {
    if (connection_ == nullptr) {
        finish(job);
        return true;
    }
    if (job.cancelled) {
        fail(job, {Code::unavailable, ECANCELED, "cancelled"}, wire::Cause::cancelled);
        return true;
    }
    if (job.deadline != steady_clock::time_point::max() && job.deadline < steady_clock::now()) {
        fail(job, {Code::timeout, ETIMEDOUT, "its time was over before the work began"}, wire::Cause::deadline);
        return true;
    }
    return false;
}

bool Session::fits(size_t wanted) const {
    return bytes_ == 0 || bytes_ + lent_for(wanted) <= target_.config().connection_bytes;
}

void Session::reserve(Job& job, size_t bytes, Job::Step then) {
    job.then = then;
    job.wanted = bytes;
    job.next = nullptr;
    if (first_waiting_ == nullptr && fits(bytes)) return try_reserve(job);
    (first_waiting_ == nullptr ? first_waiting_ : last_waiting_->next) = &job;
    last_waiting_ = &job;
}

// Within the connection's own limit; now the one for all.
void Session::try_reserve(Job& job) {
    job.reserved = lent_for(job.wanted);
    bytes_ += job.reserved;
    job.room.bytes = job.reserved;
    job.room.granted = [](io::Budget::Waiter& waiter) {
        Job& waiting = *static_cast<Job::Part<io::Budget::Waiter>&>(waiter).job;
        waiting.back.run = [](transport::Task& task) {
            Job& granted = *static_cast<Job::Part<transport::Task>&>(task).job;
            granted.session.take_buffers(granted);
        };
        waiting.session.reactor_.post(waiting.back);
    };
    if (target_.budget().acquire(job.room)) take_buffers(job);
}

void Session::take_buffers(Job& job) {
    job.buffer_count = 0;
    for (size_t left = job.wanted; left > 0;) {
        size_t size = std::min(left, largest_buffer);
        io::BufferPool::Buffer* buffer = pool_.try_take(size);
        if (buffer == nullptr)
            return fail(job, {Code::unavailable, ENOMEM, "no memory for file data"}, wire::Cause::overloaded);
        job.memory[job.buffer_count] = {buffer->data(), size};
        job.buffers[job.buffer_count++] = buffer;
        left -= size;
    }
    if (!unwanted(job)) job.then(job);
}

void Session::give_memory_back(Job& job) {
    for (unsigned i = 0; i < job.buffer_count; ++i) io::BufferPool::give_back(job.buffers[i]);
    job.buffer_count = 0;
    if (job.reserved == 0) return;
    bytes_ -= job.reserved;
    target_.budget().release(std::exchange(job.reserved, 0));
}

void Session::admit_waiting() {
    while (first_waiting_ != nullptr && fits(first_waiting_->wanted)) {
        Job* job = first_waiting_;
        first_waiting_ = job->next;
        try_reserve(*job);
    }
}

void Session::offload(Job& job, Job::Step block, Job::Step then) {
    job.block = block;
    job.then = then;
    job.blocking.run = [](Work& work) {
        Job& self = *static_cast<Job::Part<Work>&>(work).job;
        self.block(self);
        self.session.proceed(self);
    };
    target_.workers().add(job.blocking);
}

void Session::proceed(Job& job) {
    job.back.run = [](transport::Task& task) {
        Job& self = *static_cast<Job::Part<transport::Task>&>(task).job;
        if (self.session.connection_ == nullptr)
            self.session.finish(self);
        else
            self.then(self);
    };
    reactor_.post(job.back);
}

void Session::transfer(Job& job, Job::Step then) {
    job.then = then;
    job.transfer.complete = [](io::Request& request) {
        Job& self = *static_cast<Job::Part<io::Request>&>(request).job;
        self.session.proceed(self);
    };
    target_.engine().submit(job.transfer);
}

void Session::fetch(Job& job, Job::Step then) {
    job.then = then;
    job.holds_data = false;
    job.data.iov = job.memory.data();
    job.data.iov_count = static_cast<int>(job.buffer_count);
    job.data.segments = job.segments;
    job.data.queue = job.queue;
    job.data.fetched = [](transport::Fetch& fetch, const Status& status) {
        Job& self = *static_cast<Job::Part<transport::Fetch>&>(fetch).job;
        self.session.reactor_.disarm(self.stall);
        if (!status.ok()) return self.session.finish(self);
        self.then(self);
    };
    watch(job);
    connection_->fetch(job.data);
}

// Cuts the client off when a transfer with it does not end in time.
void Session::watch(Job& job) {
    job.stall.deadline = steady_clock::now() + std::chrono::seconds(target_.config().stall_seconds);
    job.stall.expired = [](transport::Timer& timer) {
        Job& self = *static_cast<Job::Part<transport::Timer>&>(timer).job;
        self.session.close({Code::timeout, ETIMEDOUT, "a transfer with the client made no end in time"});
    };
    reactor_.arm(job.stall);
}

void Session::reply(Job& job, const wire::Body& body, size_t data_length) {
    if (connection_ == nullptr) return finish(job);
    if (std::exchange(job.holds_data, false)) connection_->skip();
    job.reply.header = {};
    job.reply.header.request = job.request;
    job.reply.header.credits = 1;
    job.reply.header.data_length = static_cast<uint32_t>(data_length);
    job.reply.iov = job.slices.data();
    job.reply.iov_count = data_length == 0 ? 0 : static_cast<int>(job.slices.size());
    job.reply.segments = job.places;
    job.reply.queue = job.queue;
    job.reply.invalidate = job.invalidates ? job.segments.front().rkey : 0;
    job.reply.sent = [](transport::Send& send, const Status&) {
        Job& self = *static_cast<Job::Part<transport::Send>&>(send).job;
        self.session.reactor_.disarm(self.stall);
        self.session.finish(self);
    };
    Status status = connection_->send(job.reply, body);
    if (status.ok()) return watch(job);
    if (!connection_->closing()) connection_->close(status);
    finish(job);
}

void Session::fail(Job& job, const Status& status) { fail(job, status, cause_of(status)); }

void Session::fail(Job& job, const Status& status, wire::Cause cause) {
    wire::Error error;
    error.error = static_cast<uint32_t>(std::clamp(status.errno_value(), 1, 4095));
    error.cause = cause;
    error.retry_after_ms = cause == wire::Cause::overloaded ? 100 : 0;
    error.map_epoch = target_.map_epoch();
    error.node = target_.config().node;
    error.text = std::string_view(status.message()).substr(0, wire::max_text);
    reply(job, error);
}

void Session::release(Job& job) {
    give_memory_back(job);
    job.file.reset();
    job.opened = {};
    active_.erase(job.request);
    job.next = free_jobs_;
    free_jobs_ = &job;
}

// May destroy the session: the caller touches nothing of it any more.
void Session::finish(Job& job) {
    release(job);
    if (connection_ == nullptr) {
        if (active_.empty()) target_.remove(*this);
        return;
    }
    admit_waiting();
    close_if_idle();
}

}  // namespace fabric::xds::target
