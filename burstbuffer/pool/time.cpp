#include "burstbuffer/pool/time.h"

#include <ctime>

namespace fabric::pool {

Time boot_time() {
    timespec now{};
    // It cannot fail: the clock is there since Linux 2.6.39, and `now` is ours.
    clock_gettime(CLOCK_BOOTTIME, &now);
    return std::chrono::seconds(now.tv_sec) + Time(now.tv_nsec);
}

}  // namespace fabric::pool
