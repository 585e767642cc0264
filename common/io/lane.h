// A lane: one io_uring and the thread that owns it.
#pragma once

#include <liburing.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>

#include "common/io/request.h"
#include "common/result.h"
#include "common/unique_fd.h"

namespace fabric::io {

// Requests arrive from any thread through a lock-free list; only the lane's thread touches the ring. That is needed,
// not only fast: the kernel ties a request to the thread that submitted it, interrupts that thread for it and cancels
// it when the thread exits, and the threads of an RPC library come and go. The thread never changes its credentials.
class Lane {
  public:
    // `depth`: operations in the kernel at once; what is beyond waits in the lane, in order. `finished` is called on
    // the lane's thread for each request that is done.
    static Result<std::unique_ptr<Lane>> start(unsigned index, unsigned depth, void (*finished)(Request&));
    // Everything submitted completes first.
    ~Lane();
    // Ends the thread when everything submitted is complete. Nothing may be submitted afterwards.
    void stop();

    // Any thread. No allocation, no lock; one write(2) when the lane sleeps.
    void submit(Request& request);

  private:
    Lane(unsigned depth, void (*finished)(Request&)) : depth_(depth), finished_(finished) {}
    void main(unsigned index, std::promise<int> ready);
    int set_up_ring();
    void run();
    bool idle() const { return first_ == nullptr && in_kernel_ == 0; }
    void take_arrivals();
    void start_queued();
    void arm_wake();
    void start(Request& request);
    size_t prepare_transfer(io_uring_sqe* sqe, Request& request, size_t length);
    void reap();
    void finish(Request& request, int result);
    bool has_more(Request& request, size_t moved);
    void queue(Request& request);

    const unsigned depth_;
    void (*const finished_)(Request&);
    UniqueFd wake_fd_;
    std::atomic<Request*> arrivals_{nullptr};
    std::atomic<bool> asleep_{false};
    std::atomic<bool> stopping_{false};
    std::thread thread_;

    // The thread's own from here on: requests that wait for a place in the ring, in order, and those in the kernel.
    io_uring ring_{};
    uint64_t wake_value_ = 0;
    bool wake_armed_ = false;
    Request* first_ = nullptr;
    Request* last_ = nullptr;
    unsigned in_kernel_ = 0;
};

}  // namespace fabric::io
