#include "common/identity/identity.h"

#include <grp.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace fabric::identity {
namespace {

// std::atomic::wait spins first, which on a busy machine takes the time that the other side needs.
void wait_while(std::atomic<uint32_t>& word, uint32_t value) {
    while (word.load(std::memory_order_acquire) == value) {
        ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
    }
}

void wake(std::atomic<uint32_t>* word) { ::syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0); }

// The word that this thread waits on. It lives as long as the thread, so that a waker that comes late touches nothing
// that is gone.
std::atomic<uint32_t>& own_word() {
    thread_local std::atomic<uint32_t> word{0};
    return word;
}

}  // namespace

struct Pool::Worker {
    pthread_t thread{};
    bool started = false;
    Pool* pool = nullptr;
    std::atomic<uint32_t> rounds{0};  // the worker sleeps on it; it changes when there is a task or the end
    Task* task = nullptr;             // written before `rounds` changes
    bool end = false;
    uid_t uid = 0;
    gid_t gid = 0;
    std::vector<gid_t> groups;
    bool known = false;  // whether uid, gid and groups are what the thread has

    bool has(const Credentials& who) const {
        return known && uid == who.uid && gid == who.gid && std::ranges::equal(groups, who.groups);
    }
    int become(const Credentials& who);
    void work();
};

// Order matters: setgroups and setfsgid want CAP_SETGID, which a uid other than 0 keeps (only the file-system
// capabilities follow the file-system uid).
int Pool::Worker::become(const Credentials& who) {
    if (has(who)) return 0;
    known = false;
    if (::syscall(SYS_setgroups, who.groups.size(), who.groups.data()) != 0) return errno;
    ::syscall(SYS_setfsgid, who.gid);
    ::syscall(SYS_setfsuid, who.uid);
    // These two report no error; asking with an id that cannot be taken returns the current one.
    if (static_cast<gid_t>(::syscall(SYS_setfsgid, -1)) != who.gid) return EPERM;
    if (static_cast<uid_t>(::syscall(SYS_setfsuid, -1)) != who.uid) return EPERM;
    uid = who.uid;
    gid = who.gid;
    groups.assign(who.groups.begin(), who.groups.end());
    known = true;
    return 0;
}

void Pool::Worker::work() {
    for (uint32_t seen = 0;;) {
        wait_while(rounds, seen);
        seen = rounds.load(std::memory_order_acquire);
        if (end) return;
        for (Task* current = task; current;) {
            current->error = become(*current->who);
            if (current->error == 0) current->run(*current);
            std::atomic<uint32_t>* done = current->done;
            {
                std::lock_guard lock(pool->mutex_);
                current = pool->first_waiting_;
                if (current) {
                    pool->first_waiting_ = current->next;
                    if (!pool->first_waiting_) pool->last_waiting_ = &pool->first_waiting_;
                } else {
                    pool->idle_.push_back(this);
                }
            }
            done->store(1, std::memory_order_release);
            wake(done);
        }
    }
}

Result<std::unique_ptr<Pool>> Pool::start(unsigned threads) {
    std::unique_ptr<Pool> pool(new Pool);
    // Signals belong to the process's own threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = 0;
    for (unsigned i = 0; i < std::max(threads, 1U) && error == 0; ++i) {
        auto worker = std::make_unique<Worker>();
        worker->pool = pool.get();
        error = pthread_create(
            &worker->thread, nullptr,
            [](void* self) -> void* {
                static_cast<Worker*>(self)->work();
                return nullptr;
            },
            worker.get());
        if (error) break;
        pthread_setname_np(worker->thread, "identity");
        worker->started = true;
        std::lock_guard lock(pool->mutex_);
        pool->idle_.push_back(worker.get());
        pool->workers_.push_back(std::move(worker));
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (error) return Status::from_errno(error, "start an identity thread");
    Result<int> probe = pool->run_as({.uid = 65534, .gid = 65534, .groups = {}}, [] { return 0; });
    if (!probe.ok()) {
        return Status(Code::config, probe.status().errno_value(),
                      "cannot take a user's identity: the process needs CAP_SETUID and CAP_SETGID (run it as root)");
    }
    return pool;
}

Pool::~Pool() {
    for (auto& worker : workers_) {
        worker->end = true;
        worker->rounds.fetch_add(1, std::memory_order_release);
        wake(&worker->rounds);
        if (worker->started) pthread_join(worker->thread, nullptr);
    }
}

// The caller holds mutex_. Prefers a thread that already has the identity, else the one that worked last.
Pool::Worker* Pool::take_idle(const Credentials& who) {
    if (idle_.empty()) return nullptr;
    size_t at = idle_.size() - 1;
    for (size_t i = idle_.size(); i-- > 0;) {
        if (idle_[i]->has(who)) {
            at = i;
            break;
        }
    }
    Worker* worker = idle_[at];
    idle_.erase(idle_.begin() + static_cast<ptrdiff_t>(at));
    return worker;
}

void Pool::submit_and_wait(Task& task) {
    std::atomic<uint32_t>& word = own_word();
    word.store(0, std::memory_order_relaxed);
    task.done = &word;
    Worker* worker;
    {
        std::lock_guard lock(mutex_);
        worker = take_idle(*task.who);
        if (worker) {
            worker->task = &task;
            worker->rounds.fetch_add(1, std::memory_order_release);
        } else {
            *last_waiting_ = &task;
            last_waiting_ = &task.next;
        }
    }
    if (worker) wake(&worker->rounds);
    wait_while(word, 0);
}

}  // namespace fabric::identity
