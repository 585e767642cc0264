#include "burstbuffer/cache/cache_metrics.h"
#include "tests/unit/burstbuffer/cache/cache_fixture.h"

namespace fabric::cache {
namespace {

constexpr size_t kib = 1024;
constexpr uint64_t size = 256 * kib;  // of a file
constexpr uint64_t capacity = 32 * mib;
constexpr uint64_t files = capacity / size;  // as many as the cache would hold if all of it could be used

class EvictionTest : public testing::Test, protected CacheFixture {
  protected:
    EvictionTest() { segment_size = mib; }
    void SetUp() override { open_cache(capacity); }

    // Hits by the count of what came from elsewhere.
    uint64_t hits_of(const std::function<void()>& work, uint64_t reads_in_it) {
        uint64_t fetched = backing.fetches;
        int64_t passed = metrics().passed.value();
        work();
        return reads_in_it - (backing.fetches - fetched) - static_cast<uint64_t>(metrics().passed.value() - passed);
    }
    void read_all(uint64_t first, uint64_t count) {
        for (uint64_t file = first; file < first + count; ++file) {
            auto read = start(file, size, 0, size);
            read->done.wait();
            ASSERT_TRUE(read->outcome != Read::Outcome::served || right(*read));
            await_writes();
        }
    }
    bool index_has(uint64_t file) {
        return disks->all().front()->store().find({sample_file(file), version(size), 0}).value().has_value();
    }
    void await_writes() {
        ASSERT_TRUE(eventually([&] { return cache->on_their_way() == 0; }));
    }
};

TEST_F(EvictionTest, WhatFitsStaysOverEpochs) {
    uint64_t count = files * 3 / 4;
    read_all(0, count);
    for (int epoch = 0; epoch < 3; ++epoch) EXPECT_EQ(hits_of([&] { read_all(0, count); }, count), count) << epoch;
}

TEST_F(EvictionTest, ALoopOverTwiceTheCacheGivesHits) {
    uint64_t count = files * 2;
    for (int epoch = 0; epoch < 2; ++epoch) read_all(0, count);
    uint64_t hits = 0;
    for (int epoch = 0; epoch < 3; ++epoch) hits += hits_of([&] { read_all(0, count); }, count);
    RecordProperty("hits_per_cent", static_cast<int>(hits * 100 / (3 * count)));
    EXPECT_GE(hits * 100, 3 * count * 40) << hits << " of " << 3 * count;
}

TEST_F(EvictionTest, AScanDoesNotFlushWhatIsUsed) {
    uint64_t hot = files / 2;
    for (int i = 0; i < 4; ++i) read_all(0, hot);
    read_all(10000, files * 2);
    uint64_t hits = hits_of([&] { read_all(0, hot); }, hot);
    EXPECT_GE(hits * 100, hot * 90) << hits << " of " << hot;
}

TEST_F(EvictionTest, ANewDatasetTakesTheOldOnesPlace) {
    uint64_t count = files / 2;
    for (int i = 0; i < 4; ++i) read_all(0, files);
    // Three epochs, where the evictor keeps up with the reader; it has a thread of its own, and no pace that a test may
    // set.
    uint64_t hits = 0;
    for (int epoch = 0; epoch < 30 && hits * 100 < count * 80; ++epoch) {
        hits = hits_of([&] { read_all(5000, count); }, count);
    }
    EXPECT_GE(hits * 100, count * 80) << hits << " of " << count;
}

TEST_F(EvictionTest, PinnedFilesStayAndExpiredOnesGo) {
    cache_options.eviction.sweep = std::chrono::milliseconds(100);
    open_cache(capacity);
    auto expires = static_cast<uint32_t>(time(nullptr) - 1);
    for (uint64_t file = 0; file < 20; ++file) {
        std::string data(size, '\0');
        fill(data.data(), file, 1, 0, size);
        disks::Entry entry{{sample_file(file), version(size), 0}, {data.data(), data.size()}};
        ASSERT_EQ(cache->take({&entry, 1}, {.pinned = true, .expires = file < 10 ? 0 : expires}), 1U);
    }
    for (int i = 0; i < 3; ++i) read_all(1000 + static_cast<uint64_t>(i) * 1000, files / 2);
    ASSERT_TRUE(eventually([&] { return disks->all().front()->store().usage().records > 0 && !index_has(19); }));
    for (uint64_t file = 0; file < 10; ++file) EXPECT_TRUE(holds(file, size)) << file;
    for (uint64_t file = 10; file < 20; ++file) {
        EXPECT_FALSE(holds(file, size)) << file;
        EXPECT_FALSE(index_has(file)) << file;
    }
    EXPECT_EQ(hits_of([&] { read_all(0, 10); }, 10), 10U);
}

// What is taken at somebody's wish goes where useful records are moved to: it must not take the last room for that.
TEST_F(EvictionTest, RoomIsMadeForWhatIsTakenOverAndOver) {
    std::string data(size, 'x');
    for (int round = 0; round < 3; ++round) {
        uint64_t first = static_cast<uint64_t>(round) * 10000;
        for (uint64_t file = first; file < first + files * 3 / 2; ++file) {
            disks::Entry entry{{sample_file(file), version(size), 0}, {data.data(), data.size()}};
            bool taken = false;
            ASSERT_TRUE(eventually([&] {
                return taken = taken || cache->take({&entry, 1}, {}) == 1;
            })) << "file "
                << file;
            // Used since, so that none is dropped before it was moved.
            for (uint64_t used = first; used <= file; used += 3) {
                auto read = start(used, size, 0, 4096);
                read->done.wait();
            }
        }
    }
}

TEST_F(EvictionTest, AllPinnedIsNoAdmissionAndNoErrorToReaders) {
    std::string data(size, 'x');
    for (uint64_t file = 0; file < files; ++file) {
        disks::Entry entry{{sample_file(file), version(size), 0}, {data.data(), data.size()}};
        cache->take({&entry, 1}, {.pinned = true, .expires = 0});
    }
    for (uint64_t file = 1000; file < 1040; ++file) EXPECT_TRUE(reads(file, size)) << file;
    EXPECT_TRUE(holds(0, size));
}

TEST_F(EvictionTest, ReadersOfWhatIsEvictedGetTheRightBytes) {
    std::atomic<uint64_t> served{0};
    std::vector<std::jthread> readers;
    for (unsigned t = 0; t < 3; ++t) {
        readers.emplace_back([this, t, &served] {
            std::mt19937 random(t);
            for (int i = 0; i < 1500; ++i) {
                uint64_t file = random() % (random() % 2 != 0 ? files / 4 : files * 3);
                uint64_t offset = random() % size;
                auto read = start(file, size, offset, 1 + random() % size, 1, random() % 2 * 100);
                read->done.wait();
                if (read->outcome == Read::Outcome::passed) continue;
                ASSERT_TRUE(right(*read)) << file;
                ++served;
            }
        });
    }
    readers.clear();
    EXPECT_GT(served, 2000U);
    EXPECT_GT(metrics().evicted.value(), 0);
    EXPECT_LE(disks->all().front()->store().usage().allocated, capacity);
}

}  // namespace
}  // namespace fabric::cache
