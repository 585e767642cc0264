#include "xds/memory/crc32c_pieces.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "common/crc32c.h"

namespace fabric::xds::memory {
namespace {

// The kernel's code, run by the processor: any length and any alignment, and the sums of pieces make that of all.
TEST(Crc32cPieces, AgreeWithTheProcessors) {
    std::vector<uint32_t> table(crc32c_table_words);
    for (uint32_t i = 0; i < 256; ++i) table[i] = crc32c_table_entry(i);
    for (uint32_t i = 256; i < crc32c_table_words; ++i) table[i] = crc32c_next_entry(table.data(), table[i - 256]);
    std::mt19937 random(1);
    std::vector<unsigned char> bytes(50'000);
    for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
    for (size_t start : {0, 1, 2, 3, 5})
        for (size_t length : {0, 1, 3, 4, 5, 100, 4095, 4096, 4097, 40'000}) {
            const unsigned char* data = bytes.data() + start;
            EXPECT_EQ(crc32c_by_table(table.data(), data, length), crc32c(data, length)) << start << " " << length;
            uint32_t sum = 0;
            for (size_t at = 0; at < length; at += crc32c_piece) {
                size_t now = std::min<size_t>(crc32c_piece, length - at);
                sum = crc32c_combine(sum, crc32c_by_table(table.data(), data + at, now), now);
            }
            EXPECT_EQ(sum, crc32c(data, length));
        }
}

}  // namespace
}  // namespace fabric::xds::memory
