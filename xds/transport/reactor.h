// One thread, one io_uring: the network side of a lane. What is bound to a reactor is used on its thread alone, so it
// needs no lock.
#pragma once

#include <liburing.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>

#include "common/result.h"
#include "common/unique_fd.h"

namespace fabric::xds::transport {

// An operation in the ring; embedded in its owner, which stays where it is until complete() was called.
struct Operation {
    void (*complete)(Operation&, int result) = nullptr;  // result: as the system call, or -errno
    bool busy = false;                                   // in the ring
};

// Work for the reactor's thread; embedded. It may be posted again once run() has begun.
struct Task {
    void (*run)(Task&) = nullptr;
    Task* next = nullptr;
};

// Calls expired() once, on the reactor's thread, at `deadline` or up to 10 ms later. Embedded; reactor's thread only.
struct Timer {
    void (*expired)(Timer&) = nullptr;
    std::chrono::steady_clock::time_point deadline;
    Timer* previous = nullptr;
    Timer* next = nullptr;
    bool armed = false;
};

class Reactor {
  public:
    // `name`: of the thread, at most 15 characters.
    static Result<std::unique_ptr<Reactor>> start(const std::string& name);
    // Runs what was posted and waits for every operation: their owners must have cancelled or closed them. Not to be
    // called on the reactor's own thread.
    ~Reactor();

    // Any thread. No allocation, no lock; one write(2) when the reactor sleeps.
    void post(Task& task);
    // Runs `call` on the reactor's thread, waits for it and returns its value. Not from the reactor's own thread.
    template <typename F>
    auto call(F&& function) -> std::invoke_result_t<F> {
        using Value = std::invoke_result_t<F>;
        struct Bound : Task {
            std::remove_reference_t<F>* function = nullptr;
            std::promise<Value> done;
        } bound;
        bound.function = &function;
        bound.run = [](Task& task) {
            auto& self = static_cast<Bound&>(task);
            // The waiter may destroy the task as soon as the promise is kept.
            std::promise<Value> done = std::move(self.done);
            if constexpr (std::is_void_v<Value>) {
                (*self.function)();
                done.set_value();
            } else {
                done.set_value((*self.function)());
            }
        };
        std::future<Value> done = bound.done.get_future();
        post(bound);
        return done.get();
    }
    bool on_thread() const { return std::this_thread::get_id() == thread_.get_id(); }

    // The rest on the reactor's thread alone.
    // Submits an operation: `fill` gets the entry and calls an io_uring_prep_ function on it.
    template <typename F>
    void submit(Operation& operation, F&& fill) {
        io_uring_sqe* sqe = entry();
        fill(sqe);
        io_uring_sqe_set_data(sqe, &operation);
        operation.busy = true;
        ++in_kernel_;
    }
    // Asks the kernel to end a busy operation early; its completion still follows.
    void cancel(Operation& operation);
    void arm(Timer& timer);
    void disarm(Timer& timer);

  private:
    Reactor() = default;
    void main(std::promise<int> ready);
    int set_up();
    void loop();
    void arm_wake();
    void run_tasks();
    std::chrono::nanoseconds run_timers();
    io_uring_sqe* entry();

    UniqueFd wake_fd_;
    std::atomic<Task*> tasks_{nullptr};
    std::atomic<bool> asleep_{false};
    std::atomic<bool> stopping_{false};
    std::string name_;
    std::thread thread_;

    // The thread's own.
    io_uring ring_{};
    uint64_t wake_value_ = 0;
    Operation wake_;
    size_t in_kernel_ = 0;  // operations, without wake_
    Timer* first_timer_ = nullptr;
    Timer* last_timer_ = nullptr;
};

}  // namespace fabric::xds::transport
