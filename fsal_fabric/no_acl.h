// That an object has no access control list, remembered for as long as its ctime stays.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <cstdint>

namespace fabric::fsal {

// A list cannot come without a change of ctime. Two changes within one tick of the kernel's clock can have the same
// ctime, so only a ctime that had passed for longer when the lists were read is remembered, and only of a file system
// whose times come from this machine's clock (fs::Filesystem::is_local). Any thread.
class NoAcl {
  public:
    // The lists were read after `status`, and there were none beside the mode.
    void remember(const struct statx& status) {
        timespec now{};
        clock_gettime(CLOCK_REALTIME, &now);
        int64_t changed = nanoseconds(status);
        if (now.tv_sec * second + now.tv_nsec - changed > settled) as_of_.store(changed, std::memory_order_relaxed);
    }
    bool holds_for(const struct statx& status) const {
        return as_of_.load(std::memory_order_relaxed) == nanoseconds(status);
    }

  private:
    static constexpr int64_t second = 1'000'000'000;
    static constexpr int64_t settled = second / 20;  // five ticks of the slowest clock

    static int64_t nanoseconds(const struct statx& status) {
        return status.stx_ctime.tv_sec * second + status.stx_ctime.tv_nsec;
    }

    std::atomic<int64_t> as_of_{INT64_MIN};
};

}  // namespace fabric::fsal
