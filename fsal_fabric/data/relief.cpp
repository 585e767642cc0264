#include "fsal_fabric/data/relief.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "common/log.h"
#include "common/metrics.h"
#include "fsal_fabric/data/data_ops.h"

// FSAL/commonlib.c: closes the descriptor that was used least lately if nobody uses it; returns how many it closed.
extern "C" uint32_t lru_try_one(void);

namespace fabric::fsal {
namespace {

metrics::Counter rounds("fabric_descriptor_relief_total", "Times that descriptors were closed because few were left");

// The closing happens on a thread of its own: who runs out of descriptors holds the lock of the one that it opens, and
// the LRU takes the lock of the one that it closes, so two who closed for each other could wait for each other forever.
class Relief {
  public:
    void start() {
        stopping_ = false;
        thread_ = std::thread(&Relief::run, this);
    }
    void stop() {
        {
            std::lock_guard lock(mutex_);
            stopping_ = true;
        }
        condition_.notify_all();
        if (thread_.joinable()) thread_.join();
    }
    // Asks for a round without waiting for it.
    void hint() {
        std::lock_guard lock(mutex_);
        if (asked_ > done_) return;
        asked_ = done_ + 1;
        condition_.notify_all();
    }
    // Waits for one round, not for long: the LRU may wait for a lock that our caller holds.
    bool ask() {
        std::unique_lock lock(mutex_);
        uint64_t round = asked_ = done_ + 1;
        condition_.notify_all();
        condition_.wait_for(lock, std::chrono::seconds(1), [&] { return done_ >= round || stopping_; });
        return done_ >= round && closed_ > 0;
    }

  private:
    static constexpr unsigned closed_at_once = 256;

    void run() {
        pthread_setname_np(pthread_self(), "fd_relief");
        std::unique_lock lock(mutex_);
        for (;;) {
            condition_.wait(lock, [this] { return stopping_ || asked_ > done_; });
            if (stopping_) return;
            lock.unlock();
            unsigned closed = 0;
            for (unsigned i = 0; i < closed_at_once; ++i) closed += lru_try_one();
            rounds.add(1);
            log::debug("few descriptors left (RLIMIT_NOFILE): closed {} that were not in use", closed);
            lock.lock();
            closed_ = closed;
            done_ = asked_;
            condition_.notify_all();
        }
    }

    std::mutex mutex_;
    std::condition_variable condition_;
    uint64_t asked_ = 0;
    uint64_t done_ = 0;
    unsigned closed_ = 0;
    bool stopping_ = true;
    std::thread thread_;
};

Relief relief;

}  // namespace

void start_descriptor_relief() { relief.start(); }
void stop_descriptor_relief() { relief.stop(); }
bool relieve_descriptors() { return relief.ask(); }

void watch_descriptors(int opened) {
    static const int high = [] {
        rlimit files{};
        getrlimit(RLIMIT_NOFILE, &files);
        return static_cast<int>(std::min<rlim_t>(files.rlim_cur, 1 << 20) / 5 * 4);
    }();
    if (opened >= high) relief.hint();
}

}  // namespace fabric::fsal
