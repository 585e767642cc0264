#include "burstbuffer/cache/cache.h"

#include <fcntl.h>
#include <unistd.h>

#include "burstbuffer/cache/cache_metrics.h"
#include "burstbuffer/store/store_metrics.h"
#include "tests/unit/burstbuffer/cache/cache_fixture.h"

namespace fabric::cache {
namespace {

constexpr size_t kib = 1024;

class CacheTest : public testing::Test, protected CacheFixture {
  protected:
    void SetUp() override { open_cache(); }
};

TEST_F(CacheTest, AnyRangeIntoAnyMemoryIsExactColdAndWarm) {
    std::mt19937 random(1);
    for (uint64_t size : {uint64_t{1}, uint64_t{4095}, uint64_t{70000}, uint64_t{mib}, uint64_t{3 * mib + 5}}) {
        for (int round = 0; round < 60; ++round) {
            uint64_t offset = random() % (size + 10);
            size_t length = 1 + random() % (2 * mib), shift = random() % 4096;
            if (round % 3 == 0) offset = offset / 4096 * 4096, shift = 0;
            auto read = start(size, size, offset, length, 1, shift);
            bool served = right(*read);
            ASSERT_TRUE(served || std::min(length, size - offset) < 256 * kib)
                << "only small reads of large files are passed";
        }
    }
    uint64_t fetched = backing.fetches;
    settle();
    EXPECT_TRUE(reads(3 * mib + 5, 3 * mib + 5, 100, 3 * mib));
    EXPECT_EQ(backing.fetches, fetched) << "all of it was there";
}

TEST_F(CacheTest, ManyReadersOfOneFileAreOneFetch) {
    backing.hold();
    std::vector<std::unique_ptr<Awaited>> readers;
    for (int i = 0; i < 16; ++i) readers.push_back(start(1, mib, static_cast<uint64_t>(i) * 4096, 64 * kib));
    backing.let_go();
    for (auto& reader : readers) EXPECT_TRUE(right(*reader));
    EXPECT_EQ(backing.fetches, 1U);
}

// The gap between landing, writing and reading from disk: whoever comes at whatever time, it is fetched once.
TEST_F(CacheTest, ReadersAtAnyTimeReadTheBackingStoreOnce) {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < 4; ++t) {
        threads.emplace_back([this, t] {
            for (uint64_t file = 0; file < 300; ++file) {
                ASSERT_TRUE(reads(file, 1000 + file * 100, (t * 100) % 900)) << file;
            }
        });
    }
    threads.clear();
    EXPECT_EQ(backing.fetches, 300U);
}

TEST_F(CacheTest, HitsOfLargeChunksAreNotCopied) {
    ASSERT_TRUE(reads(1, 4 * mib, 0, 4 * mib));
    settle();
    int64_t store_copies = store::metrics().bytes_copied.value(), copies = metrics().copied_bytes.value();
    ASSERT_TRUE(reads(1, 4 * mib, 0, 4 * mib));
    ASSERT_TRUE(reads(1, 4 * mib, mib + 128 * kib, 512 * kib));
    EXPECT_EQ(store::metrics().bytes_copied.value(), store_copies);
    EXPECT_EQ(metrics().copied_bytes.value(), copies);
}

TEST_F(CacheTest, SmallFilesThatAreReadAgainComeFromMemory) {
    ASSERT_TRUE(reads(1, 5000));
    settle();
    int64_t disk = metrics().disk.value(), memory = metrics().memory.value();
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(reads(1, 5000));
    ASSERT_TRUE(reads(1, 5000, 777, 100));
    EXPECT_EQ(metrics().disk.value() - disk, 3) << "the first, the one with a use before, and that makes it stay";
    EXPECT_EQ(metrics().memory.value() - memory, 3);
}

TEST_F(CacheTest, AnotherVersionIsAnotherFile) {
    ASSERT_TRUE(reads(1, 5000));
    backing.set_version(1, 2);
    settle();
    EXPECT_TRUE(reads(1, 5000)) << "who asks for the old one gets the old one, from the cache";
    EXPECT_TRUE(right(*start(1, 5000, 0, 5000, 2)));
    auto never_seen = start(1, 5000, 0, 5000, 3);
    never_seen->done.wait();
    EXPECT_EQ(never_seen->outcome, Read::Outcome::passed) << "stale: the reader goes to the file itself";
}

TEST_F(CacheTest, AFileThatHasJustChangedIsNotTaken) {
    auto now = std::chrono::system_clock::now().time_since_epoch();
    int64_t number = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
    backing.set_version(1, number);
    auto read = start(1, 5000, 0, 5000, number);
    read->done.wait();
    EXPECT_EQ(read->outcome, Read::Outcome::passed);
    EXPECT_EQ(backing.fetches, 0U);
}

TEST_F(CacheTest, ForgottenFilesAreDroppedFromTheDisks) {
    ASSERT_TRUE(reads(1, 5000));
    ASSERT_TRUE(reads(2, 5000));
    settle();
    for (int i = 0; i < 100; ++i) cache->forget(sample_file(1));
    settle();
    EXPECT_FALSE(holds(1, 5000));
    EXPECT_TRUE(holds(2, 5000));
}

TEST_F(CacheTest, SmallReadsOfLargeFilesFetchNothingUntilThereIsAReason) {
    auto passed = [&](uint64_t offset) {
        auto read = start(1, 100 * mib, offset, 4096);
        read->done.wait();
        return read->outcome == Read::Outcome::passed;
    };
    for (uint64_t chunk = 3; chunk < 90; chunk += 9) EXPECT_TRUE(passed(chunk * mib + 8192)) << chunk;
    EXPECT_EQ(backing.fetches, 0U);
    EXPECT_TRUE(reads(1, 100 * mib, 3 * mib + 40960, 4096)) << "its chunk was asked for before";
    EXPECT_EQ(backing.fetches, 1U);
    EXPECT_TRUE(passed(50 * mib));
    EXPECT_TRUE(reads(1, 100 * mib, 50 * mib + 4096, 4096)) << "goes on from another";
}

TEST_F(CacheTest, SequentialReadersFindWhatComesNext) {
    close();
    cache_options.read_ahead = 3;
    open_cache();
    uint64_t size = 12 * mib;
    for (uint64_t at = 0; at < size; at += 128 * kib) start(1, size, at, 128 * kib)->done.wait();
    settle();
    EXPECT_GE(metrics().read_ahead.value(), 8);
    for (uint32_t chunk = 1; chunk < 12; ++chunk) EXPECT_TRUE(holds(1, size, chunk)) << chunk;
    EXPECT_LE(backing.fetches, 12U) << "none is fetched twice";
}

TEST_F(CacheTest, ABackingStoreThatFailsIsTheReadersToMeetAndTheNextReadIsRight) {
    backing.error = EIO;
    auto read = start(1, 5000, 0, 5000);
    read->done.wait();
    EXPECT_EQ(read->outcome, Read::Outcome::passed);
    backing.error = 0;
    EXPECT_TRUE(reads(1, 5000));
}

TEST_F(CacheTest, ADiskThatFailsCostsHitsNotBytes) {
    for (uint64_t file = 0; file < 20; ++file) ASSERT_TRUE(reads(file, 50000));
    settle();
    ASSERT_TRUE(fault::arm("store.read=EIO store.write=EIO disk.probe=EIO").ok());
    for (int round = 0; round < 3; ++round) {
        for (uint64_t file = 0; file < 20; ++file) ASSERT_TRUE(reads(file, 50000)) << file;
    }
    EXPECT_FALSE(disks->all().front()->usable());
}

TEST_F(CacheTest, OneFlippedByteIsReadFromTheBackingStore) {
    ASSERT_TRUE(reads(1, 50000));
    settle();
    auto found = disks->find({sample_file(1), version(50000), 0});
    ASSERT_TRUE(found);
    char name[32];
    snprintf(name, sizeof(name), "segments/%08u.seg", found->record.place.segment);
    UniqueFd file(::open((found->disk->folder() + "/" + name).c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(pwrite(file.get(), "\x55\xaa\x55", 3, static_cast<off_t>(found->record.place.offset() + 33333)), 3);
    ASSERT_EQ(fsync(file.get()), 0);
    EXPECT_TRUE(reads(1, 50000));
    EXPECT_EQ(backing.fetches, 2U);
    settle();
    EXPECT_TRUE(reads(1, 50000));
    EXPECT_EQ(backing.fetches, 2U) << "and it is there again";
}

TEST_F(CacheTest, WhatIsOnItsWayIsBounded) {
    close();
    cache_options.flights.bytes = 2 * mib;
    open_cache();
    backing.hold();
    std::vector<std::unique_ptr<Awaited>> readers;
    for (uint64_t file = 0; file < 5; ++file) readers.push_back(start(file, mib, 0, mib));
    for (uint64_t file = 2; file < 5; ++file) {
        readers[file]->done.wait();
        EXPECT_EQ(readers[file]->outcome, Read::Outcome::passed);
    }
    backing.let_go();
    EXPECT_TRUE(right(*readers[0]));
    EXPECT_TRUE(right(*readers[1]));
}

}  // namespace
}  // namespace fabric::cache
