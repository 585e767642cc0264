#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "burstbuffer/writeback/extents.h"
#include "tests/unit/burstbuffer/sample.h"

namespace fabric::writeback {
namespace {

PiecePtr piece(uint64_t offset, uint64_t length) {
    return std::make_shared<Piece>(sample_file(1), PieceName{.offset = offset}, length);
}

TEST(Extents, TheNewestWins) {
    Extents extents;
    PiecePtr old = piece(10, 20), over = piece(15, 5);
    extents.put(old);
    extents.put(over);
    auto parts = extents.find(0, 100);
    ASSERT_EQ(parts.size(), 3U);
    EXPECT_EQ(parts[0].begin, 10U);
    EXPECT_EQ(parts[0].end, 15U);
    EXPECT_EQ(parts[1].piece, over);
    EXPECT_EQ(parts[2].begin, 20U);
    EXPECT_EQ(parts[2].end, 30U);
    EXPECT_EQ(old->visible, 15U);
    extents.remove(*over);
    EXPECT_EQ(extents.find(0, 100).size(), 2U) << "what it covered stays covered: the backing store has it";
    EXPECT_EQ(extents.find(12, 13).front().begin, 12U);
}

TEST(PieceName, IsItself) {
    PieceName name{.offset = 5, .number = 77, .rule = 0xffffffff, .cut = true};
    std::optional<PieceName> read = PieceName::of(name.key(sample_file(3)));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->offset, 5U);
    EXPECT_EQ(read->number, 77U);
    EXPECT_EQ(read->rule, 0xffffffffU);
    EXPECT_TRUE(read->cut);
    EXPECT_FALSE(PieceName::of(sample_key(1)));
}

// Against an array with the owner of each byte.
TEST(Extents, AreAShadow) {
    constexpr uint64_t size = 300;
    std::mt19937 random(5);
    for (int round = 0; round < 300; ++round) {
        Extents extents;
        std::vector<PiecePtr> pieces, shadow(size);
        for (int step = 0; step < 60; ++step) {
            uint64_t what = random() % 10, at = random() % size;
            if (what < 7) {
                pieces.push_back(piece(at, 1 + random() % std::min<uint64_t>(size - at, 80)));
                extents.put(pieces.back());
                for (uint64_t i = at; i < pieces.back()->end; ++i) shadow[i] = pieces.back();
            } else if (what == 7) {
                extents.cut(at);
                for (uint64_t i = at; i < size; ++i) shadow[i] = nullptr;
                for (PiecePtr& one : pieces) one->end = std::min(one->end, std::max(one->offset, at));
            } else if (!pieces.empty()) {
                PiecePtr gone = pieces[random() % pieces.size()];
                extents.remove(*gone);
                for (PiecePtr& owner : shadow) owner = owner == gone ? nullptr : owner;
            }
            uint64_t begin = random() % size, end = begin + random() % (size - begin + 1);
            std::vector<PiecePtr> seen(size);
            for (const Extents::Part& part : extents.find(begin, end)) {
                ASSERT_LT(part.begin, part.end);
                for (uint64_t i = part.begin; i < part.end; ++i) seen[i] = part.piece;
            }
            for (uint64_t i = 0; i < size; ++i) {
                ASSERT_EQ(seen[i], i >= begin && i < end ? shadow[i] : nullptr) << "byte " << i << ", round " << round;
            }
            for (const PiecePtr& one : pieces) {
                ASSERT_EQ(one->visible, static_cast<uint64_t>(std::ranges::count(shadow, one)));
            }
        }
    }
}

}  // namespace
}  // namespace fabric::writeback
