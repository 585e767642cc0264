#include "xds/transport/verbs/gather.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <vector>

namespace fabric::xds::transport {
namespace {

// Oracle: the peer's memory is a string; what a cut moves is copied byte by byte.
TEST(Gather, MovesEveryByteOnceToItsPlace) {
    std::mt19937_64 random(1);
    for (int round = 0; round < 2000; ++round) {
        std::string source(random() % 5000 + 1, '\0');
        for (char& byte : source) byte = static_cast<char>(random());
        std::vector<iovec> memory;
        for (size_t at = 0; at < source.size();) {
            size_t length = std::min<size_t>(random() % 700, source.size() - at);
            memory.push_back({source.data() + at, length});  // some are empty
            at += length;
        }
        std::vector<wire::Segment> segments;
        size_t room = 0;
        while (room < source.size()) {
            auto length = static_cast<uint32_t>(random() % 900);
            segments.push_back(
                {1'000'000 + room + segments.size() * 10'000, static_cast<uint32_t>(segments.size()), length});
            room += length;
        }
        std::string target(source.size(), '\0');
        size_t most = random() % 8 + 1;
        for (size_t moved = 0; moved < source.size();) {
            std::array<iovec, 8> parts;
            Cut next = cut(memory, segments, moved, source.size(), std::span(parts).first(most));
            ASSERT_GT(next.length, 0u);
            ASSERT_LE(next.parts, most);
            size_t at = next.address - 1'000'000 - next.rkey * size_t{10'000};
            ASSERT_EQ(at, moved);
            ASSERT_LE(next.address + next.length, segments[next.rkey].address + segments[next.rkey].length);
            size_t length = 0;
            for (unsigned i = 0; i < next.parts; ++i) {
                target.replace(at + length, parts[i].iov_len, static_cast<char*>(parts[i].iov_base), parts[i].iov_len);
                length += parts[i].iov_len;
            }
            ASSERT_EQ(length, next.length);
            moved += length;
        }
        ASSERT_TRUE(target == source);
    }
}

TEST(Gather, EndsWithTheSegmentsAndWithTheMemory) {
    char bytes[100];
    iovec part{bytes, 100};
    wire::Segment segment{5000, 7, 60};
    std::array<iovec, 2> parts;
    EXPECT_EQ(cut({&part, 1}, {&segment, 1}, 0, 100, parts).length, 60u);
    EXPECT_EQ(cut({&part, 1}, {&segment, 1}, 60, 100, parts).length, 0u);
    EXPECT_EQ(cut({&part, 1}, {}, 0, 100, parts).length, 0u);
    EXPECT_EQ(cut({}, {&segment, 1}, 0, 10, parts).length, 0u);
    EXPECT_EQ(cut({&part, 1}, {&segment, 1}, 10, 10, parts).length, 0u);
}

TEST(Gather, SlicesOfSegments) {
    std::vector<wire::Segment> segments = {{100, 1, 10}, {500, 2, 0}, {900, 3, 10}}, out;
    EXPECT_TRUE(slice_segments(segments, 5, 10, out));
    ASSERT_EQ(out.size(), 2u);
    EXPECT_EQ(out[0], (wire::Segment{105, 1, 5}));
    EXPECT_EQ(out[1], (wire::Segment{900, 3, 5}));
    out.clear();
    EXPECT_TRUE(slice_segments(segments, 20, 0, out));
    EXPECT_TRUE(out.empty());
    EXPECT_FALSE(slice_segments(segments, 20, 1, out));
    EXPECT_FALSE(slice_segments(segments, 0, 21, out));
    EXPECT_FALSE(slice_segments(segments, UINT64_MAX, 1, out));
}

}  // namespace
}  // namespace fabric::xds::transport
