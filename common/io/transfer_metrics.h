// Which way file data went, and how much of it a CPU copied.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fabric::io {

enum class Direction : uint8_t { read, write };

// direct: the device moves the bytes to or from the caller's memory (O_DIRECT). page_cache: the kernel copies between
// the page cache and that memory. bounce: direct to a buffer of ours, then copied. burst_buffer: from there; it counts
// its own copies.
enum class Path : uint8_t { direct, page_cache, bounce, burst_buffer };

// Adds to fabric_bytes_total{direction,path} and, for page_cache and bounce, to fabric_copied_bytes_total. Any thread.
void count_transfer(Direction direction, Path path, size_t bytes);
// What it has counted in that direction so far. Costs a few dozen loads.
uint64_t transferred(Direction direction);

}  // namespace fabric::io
