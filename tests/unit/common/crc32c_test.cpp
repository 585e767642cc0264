#include "common/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace fabric {
namespace {

using Bytes = std::vector<unsigned char>;

// One bit at a time, from the definition: the oracle of the tests below.
uint32_t slow(const Bytes& bytes) {
    uint32_t crc = ~0u;
    for (unsigned char byte : bytes) {
        crc ^= byte;
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82F63B78u : 0);
    }
    return ~crc;
}

void expect_both(const Bytes& bytes, uint32_t expected) {
    EXPECT_EQ(crc32c(bytes.data(), bytes.size()), expected);
    EXPECT_EQ(crc32c_extend_portable(0, bytes.data(), bytes.size()), expected);
}

TEST(Crc32c, Rfc3720AppendixB4Vectors) {
    expect_both(Bytes(32, 0x00), 0x8A9136AA);
    expect_both(Bytes(32, 0xff), 0x62A8AB43);
    Bytes rising(32), falling(32);
    for (int i = 0; i < 32; ++i) {
        rising[i] = static_cast<unsigned char>(i);
        falling[i] = static_cast<unsigned char>(31 - i);
    }
    expect_both(rising, 0x46DD794E);
    expect_both(falling, 0x113FDB5C);
    Bytes read_10 = {0x01, 0xc0, 0, 0,    0, 0, 0, 0,    0,    0, 0, 0, 0, 0, 0, 0, 0x14, 0, 0, 0, 0, 0, 4, 0,
                     0,    0,    0, 0x14, 0, 0, 0, 0x18, 0x28, 0, 0, 0, 0, 0, 0, 0, 2,    0, 0, 0, 0, 0, 0, 0};
    expect_both(read_10, 0xD9963A56);
    std::string digits = "123456789";
    expect_both(Bytes(digits.begin(), digits.end()), 0xE3069283);
}

TEST(Crc32c, EveryLengthAndAlignmentEqualsTheDefinition) {
    std::mt19937 random(1);
    Bytes bytes(20000);
    for (auto& byte : bytes) byte = static_cast<unsigned char>(random());
    for (size_t length : {0, 1, 7, 8, 9, 63, 255, 2047, 2048, 6143, 6144, 6145, 12288, 13000, 19000}) {
        for (size_t start : {0, 1, 3, 7, 8}) {
            Bytes part(bytes.begin() + start, bytes.begin() + start + length);
            uint32_t expected = slow(part);
            EXPECT_EQ(crc32c(bytes.data() + start, length), expected) << length << " at " << start;
            EXPECT_EQ(crc32c_extend_portable(0, bytes.data() + start, length), expected) << length << " at " << start;
        }
    }
}

TEST(Crc32c, PiecesExtendAndCombine) {
    std::mt19937 random(2);
    Bytes bytes(30000);
    for (auto& byte : bytes) byte = static_cast<unsigned char>(random());
    uint32_t whole = crc32c(bytes.data(), bytes.size());
    for (size_t cut : {0, 1, 5, 4096, 6144, 29999, 30000}) {
        uint32_t a = crc32c(bytes.data(), cut);
        uint32_t b = crc32c(bytes.data() + cut, bytes.size() - cut);
        EXPECT_EQ(crc32c_extend(a, bytes.data() + cut, bytes.size() - cut), whole);
        EXPECT_EQ(crc32c_combine(a, b, bytes.size() - cut), whole);
    }
}

}  // namespace
}  // namespace fabric
