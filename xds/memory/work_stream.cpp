#include "xds/memory/work_stream.h"

#include <pthread.h>

#include <system_error>
#include <utility>

namespace fabric::xds::memory {

Result<std::unique_ptr<WorkStream>> ThreadStream::open(const void* native, std::chrono::microseconds delay) {
    if (native != nullptr) return Status::invalid("streams of this kind of memory are the library's own");
    Result<std::unique_ptr<ThreadStream>> stream = start(delay);
    if (!stream.ok()) return stream.status();
    return std::unique_ptr<WorkStream>(std::move(*stream));
}

Result<std::unique_ptr<ThreadStream>> ThreadStream::start(std::chrono::microseconds delay) {
    std::unique_ptr<ThreadStream> stream(new ThreadStream(delay));
    try {
        stream->thread_ = std::thread([self = stream.get()] { self->main(); });
    } catch (const std::system_error& error) {
        return Status::from_errno(error.code().value(), "the thread of a stream");
    }
    return stream;
}

ThreadStream::~ThreadStream() {
    if (!thread_.joinable()) return;
    {
        std::lock_guard lock(mutex_);
        stopped_ = ending_ = true;
        changed_.notify_all();
    }
    thread_.join();
}

Status ThreadStream::enqueue(StreamWork& work) {
    std::lock_guard lock(mutex_);
    if (stopped_) return {Code::unavailable, ECANCELED, "the stream was closed"};
    work.next_in_stream = nullptr;
    (first_ == nullptr ? first_ : last_->next_in_stream) = &work;
    last_ = &work;
    ++given_;
    changed_.notify_all();
    return {};
}

Status ThreadStream::synchronize() {
    if (is_own_thread()) return {Code::invalid, EDEADLK, "a stream cannot be waited for by its own work"};
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this, last = given_] { return over_ >= last; });
    return {};
}

Status ThreadStream::stop() {
    if (is_own_thread()) return {Code::invalid, EDEADLK, "a stream cannot be closed by its own work"};
    std::unique_lock lock(mutex_);
    stopped_ = true;
    changed_.wait(lock, [this] { return over_ == given_; });
    return {};
}

void ThreadStream::main() {
    pthread_setname_np(pthread_self(), "xds_stream");
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [this] { return first_ != nullptr || ending_; });
        if (first_ == nullptr) return;
        StreamWork* work = std::exchange(first_, first_->next_in_stream);
        lock.unlock();
        if (delay_.count() != 0) std::this_thread::sleep_for(delay_);
        work->run();
        lock.lock();
        ++over_;
        changed_.notify_all();
    }
}

}  // namespace fabric::xds::memory
