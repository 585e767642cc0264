// A limit on bytes that are in use at once, with a FIFO of those who wait for room.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>

namespace fabric::io {

// Thread safe. The uncontended path is two atomic operations; the mutex is taken only when somebody waits.
class Budget {
  public:
    // One who may have to wait; embedded in the caller's own object, so that waiting allocates nothing. It must stay
    // where it is until granted.
    struct Waiter {
        size_t bytes = 0;
        // Called once by the thread that made room, outside the budget's lock. It must hand the work on (to a lane)
        // rather than finish it in place, or a long queue would be served by recursion.
        void (*granted)(Waiter&) = nullptr;
        Waiter* next = nullptr;
    };

    explicit Budget(size_t limit) : limit_(limit) {}
    Budget(const Budget&) = delete;
    Budget& operator=(const Budget&) = delete;

    // True: the bytes are the caller's at once. False: the waiter stands in the queue and granted() will follow. A
    // request larger than the limit is let through when it is alone.
    bool acquire(Waiter& waiter);
    // As acquire, but never waits.
    bool try_acquire(size_t bytes);
    void release(size_t bytes);

    size_t limit() const { return limit_; }
    size_t used() const { return used_.load(std::memory_order_relaxed); }
    size_t waiting() const { return waiting_.load(std::memory_order_relaxed); }

  private:
    bool take(size_t bytes);
    Waiter* pop_granted();

    const size_t limit_;
    std::atomic<size_t> used_{0};
    std::atomic<size_t> waiting_{0};
    std::mutex mutex_;
    Waiter* first_ = nullptr;
    Waiter* last_ = nullptr;
};

}  // namespace fabric::io
