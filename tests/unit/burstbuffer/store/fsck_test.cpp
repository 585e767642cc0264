#include "burstbuffer/store/fsck.h"

#include <fcntl.h>
#include <unistd.h>

#include "common/unique_fd.h"
#include "tests/unit/burstbuffer/store/store_fixture.h"

namespace fabric::store {
namespace {

class FsckTest : public testing::Test, protected StoreFixture {
  protected:
    void SetUp() override {
        open();
        for (uint32_t i = 0; i < 20; ++i) {
            ASSERT_TRUE(put(sample_key(i), content(i), i < 5 ? LocalStore::Kind::dirty : LocalStore::Kind::clean).ok());
        }
    }
    static std::string content(uint32_t number) { return random_bytes(1000 + number * 50000, number); }

    FsckReport check(bool repair, bool data = true) {
        store.reset();
        findings.clear();
        Result<FsckReport> report = fsck({.folder = folder.path(), .repair = repair, .data = data},
                                         [&](const Finding& finding) { findings.push_back(finding); });
        EXPECT_TRUE(report.ok()) << report.status().message();
        return report.ok() ? *report : FsckReport{};
    }
    std::string segment(uint32_t number) {
        char name[32];
        snprintf(name, sizeof(name), "segments/%08u.seg", number);
        return folder / name;
    }
    void flip(uint32_t key) {
        ChunkRecord record = store->find(sample_key(key)).value().value();
        UniqueFd file(::open(segment(record.place.segment).c_str(), O_RDWR | O_CLOEXEC));
        char byte = static_cast<char>(~content(key)[7]);
        ASSERT_EQ(pwrite(file.get(), &byte, 1, static_cast<off_t>(record.place.offset() + 7)), 1);
        ASSERT_EQ(fsync(file.get()), 0);
    }
    // Changes the index behind the store's back.
    void tamper(const std::function<void(index::Index&)>& with) {
        store.reset();
        auto index = index::Index::open(folder / "index", {});
        ASSERT_TRUE(index.ok());
        with(**index);
    }

    std::vector<Finding> findings;
};

TEST_F(FsckTest, ASoundStoreHasNoFindings) {
    FsckReport report = check(false);
    EXPECT_EQ(report.records, 20U);
    EXPECT_EQ(report.dirty, 5U);
    EXPECT_EQ(report.found, 0U) << findings.front().what;
}

TEST_F(FsckTest, DamagedCleanDataIsFoundAndDropped) {
    flip(10);
    EXPECT_EQ(check(false, false).found, 0U) << "only reading the data shows it";
    EXPECT_EQ(check(false).found, 1U);
    FsckReport report = check(true);
    EXPECT_EQ(report.repaired, 1U);
    EXPECT_EQ(check(false).found, 0U);
    open();
    EXPECT_EQ(read(sample_key(10)).outcome, Read::Outcome::miss);
    EXPECT_TRUE(read(sample_key(11)).bytes == content(11));
}

TEST_F(FsckTest, DamagedDirtyDataIsToldAndNeverDropped) {
    flip(3);
    FsckReport report = check(true);
    EXPECT_EQ(report.found, 1U);
    EXPECT_EQ(report.repaired, 0U);
    EXPECT_NE(findings.at(0).what.find("backing store does not have"), std::string::npos) << findings.at(0).what;
    EXPECT_EQ(check(true).records, 20U);
}

TEST_F(FsckTest, AMissingAndAShortSegmentAreFound) {
    uint32_t last = store->find(sample_key(19)).value()->place.segment;
    uint32_t first = store->find(sample_key(6)).value()->place.segment;
    store.reset();
    ASSERT_EQ(unlink(segment(last).c_str()), 0);
    FsckReport report = check(true, false);
    EXPECT_GT(report.found, 0U);
    EXPECT_EQ(report.repaired, report.found);
    ASSERT_EQ(truncate(segment(first).c_str(), 8192), 0);
    EXPECT_GT(check(true, false).found, 0U);
    open();
    for (uint32_t i = 5; i < 20; ++i) {
        Answer answer = read(sample_key(i));
        EXPECT_TRUE(answer.outcome == Read::Outcome::miss || answer.bytes == content(i)) << i;
    }
}

TEST_F(FsckTest, ADerivedEntryThatIsGoneIsMadeAgain) {
    ChunkRecord record = store->find(sample_key(2)).value().value();
    tamper([&](index::Index& index) { ASSERT_TRUE(index.erase_raw("residents", record.place.encode()).ok()); });
    EXPECT_EQ(check(false).found, 1U);
    EXPECT_EQ(check(true).repaired, 1U);
    EXPECT_EQ(check(false).found, 0U);
    open();
    for (uint32_t i = 0; i < 20; ++i) ASSERT_TRUE(read(sample_key(i)).bytes == content(i)) << i;
    EXPECT_EQ(store->usage().dirty_records, 5U);
}

TEST_F(FsckTest, OverlapsAreFound) {
    ChunkRecord record = store->find(sample_key(12)).value().value();
    tamper([&](index::Index& index) {
        index::Index::Change change;
        change.put(sample_key(99), record);
        ASSERT_TRUE(index.apply(change, true).ok());
    });
    FsckReport report = check(false);
    EXPECT_GT(report.found, 0U);
    EXPECT_NE(findings.at(0).what.find("overlap"), std::string::npos) << findings.at(0).what;
}

TEST_F(FsckTest, NoStoreOrOneInUseIsRefused) {
    auto ignore = [](const Finding&) {};
    Result<FsckReport> in_use = fsck({.folder = folder.path()}, ignore);
    ASSERT_FALSE(in_use.ok());
    EXPECT_EQ(in_use.status().errno_value(), EBUSY);
    Folder empty;
    EXPECT_FALSE(fsck({.folder = empty.path()}, ignore).ok());
    EXPECT_EQ(access((empty / "FORMAT").c_str(), F_OK), -1) << "checking makes no store";
}

}  // namespace
}  // namespace fabric::store
