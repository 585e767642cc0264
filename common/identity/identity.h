// Runs single calls with a user's identity, on threads of its own.
//
// A thread that has opened verbs must never change its credentials: the kernel compares the pointer, not the ids, so
// over soft-RoCE its next verbs call fails for good. Hence these threads, which nobody else uses. The change is by
// raw system calls, for the one thread alone (glibc's wrappers change all threads of the process): setgroups, setfsgid,
// setfsuid. With a file-system uid other than 0 the kernel takes the file-system capabilities from the thread
// (capabilities(7)), as the kernel's own NFS server does.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "common/result.h"

namespace fabric::identity {

// Who a call is made for. The groups are borrowed.
struct Credentials {
    uid_t uid = 0;
    gid_t gid = 0;
    std::span<const gid_t> groups;
};

class Pool {
  public:
    // Starts `threads` (at least 1) threads. Call it from a thread that never changed its credentials. Fails when the
    // process may not change its identity (no CAP_SETUID or CAP_SETGID).
    static Result<std::unique_ptr<Pool>> start(unsigned threads);
    // Waits for the calls in progress. None may come afterwards.
    ~Pool();

    // Runs `call` on one of the threads with that identity and returns what it returns. Any thread but the pool's own
    // may call it. It waits without a bound when all threads are busy. `call` must not throw, and has no capability to
    // open files by handle when uid is not 0. An identity that the kernel refuses (more groups than NGROUPS_MAX) is an
    // error; `call` did not run then.
    template <typename F>
    auto run_as(const Credentials& who, F&& call) -> Result<std::invoke_result_t<F>> {
        using Value = std::invoke_result_t<F>;
        struct Bound : Task {
            std::remove_reference_t<F>* call = nullptr;
            std::optional<Value> value;
        } bound;
        bound.call = &call;
        bound.who = &who;
        bound.run = [](Task& task) {
            auto& self = static_cast<Bound&>(task);
            self.value.emplace((*self.call)());
        };
        submit_and_wait(bound);
        if (bound.error) return Status::from_errno(bound.error, "change of identity");
        return *std::move(bound.value);
    }

  private:
    struct Task {
        void (*run)(Task&) = nullptr;
        const Credentials* who = nullptr;
        Task* next = nullptr;
        int error = 0;
        std::atomic<uint32_t>* done = nullptr;  // the waiting thread's own word: outlives the task
    };
    struct Worker;

    Pool() = default;
    void submit_and_wait(Task& task);
    Worker* take_idle(const Credentials& who);

    std::mutex mutex_;
    std::vector<Worker*> idle_;  // the most recently used last: its caches are warm
    Task* first_waiting_ = nullptr;
    Task** last_waiting_ = &first_waiting_;
    std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace fabric::identity
