// Work that is done in an order, beside the caller: what a CUDA stream is to a GPU. Each kind of memory has its own
// (Kind::open_stream); here are the interface and a thread that does the work of one stream.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "common/result.h"

namespace fabric::xds::memory {

// Something to do in a stream. It belongs to the stream from enqueue() until run() is called, and to whom run() gives
// it afterwards: the stream does not touch it again.
class StreamWork {
  public:
    virtual ~StreamWork() = default;
    // On a thread of the stream's own, where it may wait and may use all functions of all kinds. It must not throw.
    virtual void run() = 0;

    // The stream's own.
    StreamWork* next_in_stream = nullptr;
};

// Any thread may call all of it.
class WorkStream {
  public:
    virtual ~WorkStream() = default;

    // Its run() will be called when everything that the stream was given before is over, and what it is given
    // afterwards begins when run() has returned. Error: it will not be called. ECANCELED: after stop().
    virtual Status enqueue(StreamWork& work) = 0;
    // Returns when everything that was given before is over. EDEADLK: called by the stream's own work.
    virtual Status synchronize() = 0;
    // As synchronize(), and takes no more work. Before destruction, which does not have to wait then.
    virtual Status stop() = 0;
};

// A thread that does one piece of work after the other.
class ThreadStream : public WorkStream {
  public:
    // EAGAIN: no thread to be had. `delay`: how long each piece waits before it begins, once its turn has come.
    static Result<std::unique_ptr<ThreadStream>> start(std::chrono::microseconds delay = {});
    // For kinds of memory that have no streams of their own: EINVAL for a native one.
    static Result<std::unique_ptr<WorkStream>> open(const void* native, std::chrono::microseconds delay = {});
    // Does what is left first. Not on its own thread.
    ~ThreadStream() override;

    Status enqueue(StreamWork& work) override;
    Status synchronize() override;
    Status stop() override;
    bool is_own_thread() const { return std::this_thread::get_id() == thread_.get_id(); }

  private:
    explicit ThreadStream(std::chrono::microseconds delay) : delay_(delay) {}
    void main();

    const std::chrono::microseconds delay_;
    std::mutex mutex_;
    std::condition_variable changed_;
    StreamWork* first_ = nullptr;
    StreamWork* last_ = nullptr;
    uint64_t given_ = 0, over_ = 0;  // pieces, ever
    bool stopped_ = false, ending_ = false;
    std::thread thread_;
};

}  // namespace fabric::xds::memory
