#include "burstbuffer/store/segments.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fault.h"
#include "tests/unit/burstbuffer/folder.h"

namespace fabric::store {
namespace {

constexpr uint64_t mib = 1 << 20;
constexpr uint32_t blocks_per_segment = mib / Place::block_size;

class SegmentsTest : public testing::Test {
  protected:
    void TearDown() override { EXPECT_TRUE(fault::arm("").ok()); }

    void open(uint64_t capacity = 3 * mib, const std::map<uint32_t, Segments::Known>& known = {}) {
        segments.reset();
        auto opened = Segments::open(folder / "segments", {.segment_size = mib, .capacity = capacity}, known);
        ASSERT_TRUE(opened.ok()) << opened.status().message();
        segments = std::move(opened).value();
    }
    // A record of so many blocks, live.
    Place add(uint32_t blocks) {
        Result<Place> place = segments->allocate(blocks);
        EXPECT_TRUE(place.ok()) << place.status().message();
        if (!place.ok()) return {};
        segments->use(place->segment, use(blocks));
        segments->settle(*place);
        return *place;
    }
    static SegmentUse use(uint32_t blocks) { return {blocks * int64_t{Place::block_size}, 1, 0}; }

    Folder folder;
    std::unique_ptr<Segments> segments;
};

TEST_F(SegmentsTest, PiecesLieBehindEachOtherAndFillSegmentAfterSegment) {
    open();
    EXPECT_EQ(add(100), (Place{1, 0}));
    EXPECT_EQ(add(156), (Place{1, 100}));
    EXPECT_EQ(add(1), (Place{2, 0}));
    EXPECT_EQ(add(256), (Place{3, 0})) << "a piece is never split";
    Result<Place> none = segments->allocate(1);
    ASSERT_FALSE(none.ok());
    EXPECT_EQ(none.status().errno_value(), ENOSPC);
    EXPECT_EQ(none.status().code(), Code::unavailable);
    struct stat status {};
    ASSERT_EQ(fstat(segments->descriptor(2).value(), &status), 0);
    EXPECT_EQ(status.st_size, static_cast<off_t>(mib));
    EXPECT_GE(status.st_blocks * 512, static_cast<off_t>(mib)) << "preallocated";
    EXPECT_FALSE(segments->descriptor(4).ok());
    EXPECT_FALSE(segments->allocate(0).ok());
    EXPECT_FALSE(segments->allocate(blocks_per_segment + 1).ok());
}

TEST_F(SegmentsTest, AnEmptySegmentIsReusedWhenItsReadersAreGone) {
    open(2 * mib);
    Place first = add(256);
    add(200);
    Grace::Token reader = segments->grace().enter();
    segments->use(first.segment, -use(256));
    EXPECT_FALSE(segments->allocate(100).ok()) << "a reader may still be at the first one";
    Grace::leave(reader);
    EXPECT_EQ(add(100), (Place{1, 0}));
}

TEST_F(SegmentsTest, AnUnsettledPieceIsNotReused) {
    open(2 * mib);
    Result<Place> pending = segments->allocate(256);
    add(256);
    EXPECT_FALSE(segments->allocate(1).ok());
    segments->settle(*pending);
    EXPECT_EQ(add(1).segment, 1U) << "given up without a record: free at once";
}

TEST_F(SegmentsTest, AfterAStartWhatIsInUseIsKeptAndTheRestReused) {
    open();
    add(256), add(256), add(10);
    open(3 * mib, {{2, {use(256), 256}}, {3, {use(10), 10}}});
    EXPECT_EQ(add(20), (Place{3, 10})) << "goes on behind the last record";
    EXPECT_EQ(add(256), (Place{1, 0})) << "holds nothing";
    EXPECT_FALSE(segments->allocate(256).ok());
    Segments::Usage usage = segments->usage();
    EXPECT_EQ(usage.allocated, 3 * mib);
    EXPECT_EQ(usage.records, 4U);
    EXPECT_EQ(usage.live, (256 + 10 + 20 + 256) * Place::block_size);
}

TEST_F(SegmentsTest, WhatWasFreeAtAStartIsReusedWhoeverReadsMeanwhile) {
    open();
    add(256), add(256);
    open();
    Grace::Token reader = segments->grace().enter();
    EXPECT_EQ(add(256).segment, 1U);
    EXPECT_EQ(add(256).segment, 2U);
    Grace::leave(reader);
    EXPECT_EQ(segments->usage().allocated, 2 * mib);
}

TEST_F(SegmentsTest, AFullFileSystemIsToldAsSuchAndLeavesNothingBehind) {
    open();
    ASSERT_TRUE(fault::arm("store.preallocate=ENOSPC*1").ok());
    Result<Place> none = segments->allocate(1);
    ASSERT_FALSE(none.ok());
    EXPECT_EQ(none.status().errno_value(), ENOSPC);
    EXPECT_NE(access((folder / "segments/00000001.seg").c_str(), F_OK), 0);
    EXPECT_EQ(add(1), (Place{1, 0})) << "and it goes on when there is room again";
}

TEST_F(SegmentsTest, TheReserveStaysFree) {
    auto opened = Segments::open(folder / "segments", {.segment_size = mib, .reserve = uint64_t{1} << 60}, {});
    ASSERT_TRUE(opened.ok());
    EXPECT_EQ((*opened)->allocate(1).status().errno_value(), ENOSPC);
    EXPECT_EQ((*opened)->usage().capacity, 0U);
}

}  // namespace
}  // namespace fabric::store
