// CRC32C of short pieces, by the code that the processor (in tests) and the CUDA kernel share. Four tables: four bytes
// at a time.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#define XDS_BOTH_SIDES __host__ __device__
#else
#define XDS_BOTH_SIDES
#endif

namespace fabric::xds::memory {

// Bytes of a piece: what one thread of the kernel goes through.
constexpr uint32_t crc32c_piece = 4096;
// Bytes of the tables, of 4 * 256 words.
constexpr uint32_t crc32c_table_words = 4 * 256;

// Entry `index` of the first table: Castagnoli's polynomial, reflected.
XDS_BOTH_SIDES inline uint32_t crc32c_table_entry(uint32_t index) {
    for (int bit = 0; bit < 8; ++bit) index = (index >> 1) ^ ((index & 1) != 0 ? 0x82F63B78U : 0);
    return index;
}

// Of [data, data + length), as crc32c() has it.
XDS_BOTH_SIDES inline uint32_t crc32c_by_table(const uint32_t* table, const unsigned char* data, size_t length) {
    uint32_t sum = 0xFFFFFFFFU;
    while (length > 0 && (reinterpret_cast<uintptr_t>(data) & 3) != 0) {
        sum = (sum >> 8) ^ table[(sum ^ *data++) & 255];
        --length;
    }
    for (; length >= 4; length -= 4, data += 4) {
        sum ^= *reinterpret_cast<const uint32_t*>(data);
        sum = table[768 + (sum & 255)] ^ table[512 + ((sum >> 8) & 255)] ^ table[256 + ((sum >> 16) & 255)] ^
              table[sum >> 24];
    }
    for (; length > 0; --length) sum = (sum >> 8) ^ table[(sum ^ *data++) & 255];
    return ~sum;
}

// The tables after the first follow from it: entry `index` of table `number`.
XDS_BOTH_SIDES inline uint32_t crc32c_next_entry(const uint32_t* first, uint32_t before) {
    return (before >> 8) ^ first[before & 255];
}

}  // namespace fabric::xds::memory
