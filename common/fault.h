// Fault injection by one mechanism for every layer. A place that can fail asks its named point first:
//
//     if (int error = fault::hit("backing.fsync")) return Status::from_errno(error, ...);
//
// Unarmed (production), a hit costs one relaxed load. Armed by the environment at start, or from a file that a test
// rewrites while the process runs (FABRIC_FAULT_FILE; it is read again when it changes, within 50 ms, and what is armed
// then stands in FABRIC_FAULT_FILE.armed, behind "armed: "):
//
//     FABRIC_FAULTS='backing.fsync=EIO*1 backing.read=short:512@3 backing.write=delay:200'
//
// POINT=ACTION[@N][*COUNT]: ACTION is an errno name (EIO, ENOSPC, ...), short:BYTES (the transfer is cut to BYTES),
// delay:MS (the calling thread sleeps), hang:MS (the operation ends so much later, and no thread of ours sleeps) or
// kill (SIGKILL to ourselves); @N lets the first N hits pass; *COUNT limits how often it strikes (default: always).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/result.h"

namespace fabric::fault {

namespace detail {
extern std::atomic<bool> armed;
int strike(std::string_view point);
size_t strike_length(std::string_view point, size_t length);
int64_t strike_end(std::string_view point);
}  // namespace detail

// 0, or the positive errno that the point is to fail with. Delays and kills happen inside. Any thread.
inline int hit(std::string_view point) {
    return detail::armed.load(std::memory_order_relaxed) ? detail::strike(point) : 0;
}

// Whether any point is armed: what costs more than a load, such as making up a point's name, is asked after this.
inline bool armed() { return detail::armed.load(std::memory_order_relaxed); }

// How many of `length` bytes the transfer at this point may move.
inline size_t limit(std::string_view point, size_t length) {
    return detail::armed.load(std::memory_order_relaxed) ? detail::strike_length(point, length) : length;
}

// So many milliseconds is the end of the operation at this point to be held back.
inline int64_t hang(std::string_view point) {
    return detail::armed.load(std::memory_order_relaxed) ? detail::strike_end(point) : 0;
}

// Replaces all armed faults by `spec` (empty disarms). An unknown action or errno name is an error that names it, and
// nothing changes.
Status arm(std::string_view spec);
// Arms from FABRIC_FAULTS and follows FABRIC_FAULT_FILE; called once at start by a daemon. Without both it does
// nothing.
Status arm_from_environment();
// How often the point has struck since it was armed.
uint64_t struck(std::string_view point);

}  // namespace fabric::fault
