// CRC32C (Castagnoli, RFC 3720 appendix B.4): the processor's instruction where it has one, else tables.
//
// Values are the finished checksum (pre- and post-inverted), so crc32c(a + b) == crc32c_extend(crc32c(a), b), and an
// empty input gives 0. Any thread; no allocation; any alignment.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fabric {

uint32_t crc32c_extend(uint32_t crc, const void* data, size_t length);
inline uint32_t crc32c(const void* data, size_t length) { return crc32c_extend(0, data, length); }

// The checksum of A followed by B, from the checksums of both and the length of B in bytes. O(log length).
uint32_t crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t length_b);

// True when crc32c_extend runs on the processor's own instruction.
bool crc32c_is_hardware();
// The table version, whatever the processor has; for tests that compare the two.
uint32_t crc32c_extend_portable(uint32_t crc, const void* data, size_t length);

}  // namespace fabric
