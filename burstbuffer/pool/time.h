// Time as the pool's state machines take it: handed in, never asked for.
#pragma once

#include <chrono>

namespace fabric::pool {

// Of a clock that never goes back and counts while the machine is suspended: CLOCK_BOOTTIME, or a simulator's.
using Time = std::chrono::nanoseconds;
using Duration = std::chrono::nanoseconds;

constexpr Time never = Time::max();

// CLOCK_BOOTTIME. For hosts of the state machines alone.
Time boot_time();

}  // namespace fabric::pool
