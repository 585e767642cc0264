// An accelerator for tests: memory that neither the processor nor the kernel can touch. The user's view is mapped
// without any access right, so a stray access faults and a system call on it ends with EFAULT; the bytes are reached
// through a second mapping that only this kind knows.
#pragma once

#include <chrono>

#include "xds/memory/kind.h"

namespace fabric::xds::memory {

// All settings hold for the allocations and streams made after them.
struct SimSettings {
    size_t aperture = SIZE_MAX;                 // bytes that a card could reach at once
    uint64_t copy_bytes_per_second = 0;         // 0: as fast as memory is
    uint64_t remote_bytes_per_second = 0;       // of what a card writes there; 0: as fast as that is
    bool dmabuf = false;                        // whether export_dmabuf works (with a plain memory file)
    bool peer_memory = false;                   // whether peer_memory says so
    std::chrono::microseconds stream_delay{0};  // before each piece of work in a stream begins
};

const Kind& sim();
void sim_configure(const SimSettings& settings);
// Memory of simulated device `device`, page aligned. Free it with sim_free and the same address.
Result<void*> sim_allocate(size_t length, int device = 0);
// EINVAL: not the start of a live allocation.
Status sim_free(void* address);
// Copies made by the kind since the process began, in bytes: in + out.
uint64_t sim_copied_bytes();
// While true, copies wait where they begin: what else goes on meanwhile can be seen.
void sim_hold_copies(bool hold);
// Copies that wait there now.
unsigned sim_held_copies();
// Pieces of host memory that are pinned for copies.
unsigned sim_pinned();

}  // namespace fabric::xds::memory
