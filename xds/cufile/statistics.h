// cuFile's statistics: counted between cuFileStatsStart and cuFileStatsStop, at the level that was set before.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <mutex>

#include "xds/cufile/abi.h"

namespace fabric::xds::cufile {

// Microseconds since it was made.
class Clock {
  public:
    uint64_t microseconds() const {
        auto passed = std::chrono::steady_clock::now() - start_;
        return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(passed).count());
    }

  private:
    const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

struct Counted {
    std::atomic<uint64_t> ok{0}, failed{0};
};
enum class Event {
    read,
    write,
    add_file,
    remove_file,
    add_buffer,
    remove_buffer,
    batch_set_up,
    batch_submit,
    batch_complete,
    batch_cancel,
    batch_destroy,
    batch_enqueued,
    batch_enqueued_locally,
    batch_processed,
    batch_processed_locally,
    count
};

// Thread safe. Counting is a look at one variable where nothing is collected.
class Statistics {
  public:
    // 0: nothing; 1: counts, bytes, times; 2: sizes of requests too; 3: by device too. Holds from the next start on.
    void set_level(int level);
    int level() const { return level_.load(); }
    void start();
    void stop();
    void reset();

    void count(Event event, bool success);
    // A read or write of this process: `bytes`, or less than 0. `memory`: to know the device.
    void moved(bool read, int64_t bytes, uint64_t microseconds, const void* memory, bool local);
    // A request of a batch that ended.
    void batch_moved(bool read, int64_t bytes, bool local);
    void batch_time(bool submission, uint64_t microseconds);
    // A device buffer's registration (`bytes` > 0) or its end (0).
    void registered(const void* memory, uint64_t bytes, bool success);

    CUfileStatsLevel1_t basic() const;
    CUfileStatsLevel2_t detailed() const;
    CUfileStatsLevel3_t by_device() const;

  private:
    static constexpr size_t most_devices = 16, most_sizes = 32;
    struct Moved {
        std::atomic<uint64_t> bytes{0}, microseconds{0};
        std::array<std::atomic<uint64_t>, most_sizes> sizes{};
    };
    struct Device {
        std::atomic<uint64_t> bytes[2]{}, microseconds[2]{}, count[2]{}, local[2]{}, unaligned[2]{}, failed[2]{};
        std::atomic<uint64_t> registrations{0}, registered{0}, not_registered{0}, ended{0}, registered_bytes{0};
    };
    bool collects(int level) const { return collected_.load(std::memory_order_relaxed) >= level; }
    Device* device_of(const void* memory);
    double seconds() const;
    CUfileOpCounter_t counter(Event event) const;

    std::atomic<int> level_{0};
    std::atomic<int> collected_{0};  // the level while it counts, else 0
    std::array<Counted, static_cast<size_t>(Event::count)> events_;
    std::array<Moved, 2> moved_;        // reads, writes
    std::array<Moved, 2> batch_moved_;  // likewise; their microseconds: submissions, completions
    std::array<std::atomic<uint64_t>, 2> last_batch_{};
    std::array<Device, most_devices> devices_;
    mutable std::mutex mutex_;
    std::chrono::steady_clock::time_point since_{};
    std::chrono::steady_clock::duration collected_for_{};  // before the last start
};

}  // namespace fabric::xds::cufile
