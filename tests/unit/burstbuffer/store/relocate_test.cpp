#include <map>
#include <thread>

#include "burstbuffer/store/store_metrics.h"
#include "tests/unit/burstbuffer/store/store_fixture.h"

namespace fabric::store {
namespace {

class RelocateTest : public testing::Test, protected StoreFixture {
  protected:
    void SetUp() override { open(16 * mib); }
    uint32_t segment_of(uint32_t number) { return store->find(sample_key(number)).value()->place.segment; }
};

TEST_F(RelocateTest, RecordsLieElsewhereAndAreTheSame) {
    std::map<uint32_t, std::string> model;
    std::vector<ChunkKey> keys;
    for (uint32_t i = 0; i < 20; ++i) {
        model[i] = random_bytes(1 + i * 9001 % 150000, i);
        ASSERT_TRUE(store
                        ->put({{{sample_key(i), {model[i].data(), model[i].size()}}}}, LocalStore::Kind::clean,
                              {.lifetime = {.pinned = i % 2 == 0, .expires = UINT32_MAX}})
                        .ok());
        keys.push_back(sample_key(i));
    }
    ASSERT_TRUE(put(sample_key(50), "dirty", LocalStore::Kind::dirty).ok());
    keys.push_back(sample_key(50)), keys.push_back(sample_key(51));
    uint32_t before = segment_of(0);
    Result<size_t> moved = store->relocate(keys);
    ASSERT_TRUE(moved.ok()) << moved.status().message();
    EXPECT_EQ(*moved, 20U) << "not the dirty one, nor the one that is not there";
    EXPECT_NE(segment_of(0), before);
    EXPECT_EQ(segment_of(50), before);
    for (int round = 0; round < 2; ++round) {
        for (auto& [number, data] : model) {
            EXPECT_TRUE(read(sample_key(number)).bytes == data) << number;
            EXPECT_EQ(store->find(sample_key(number)).value()->lifetime.pinned, number % 2 == 0);
        }
        EXPECT_EQ(store->usage().records, 21U);
        open(16 * mib);
    }
}

TEST_F(RelocateTest, DamageIsNotCarriedOn) {
    ASSERT_TRUE(put(sample_key(1), random_bytes(70000, 1)).ok());
    ASSERT_TRUE(put(sample_key(2), random_bytes(70000, 2)).ok());
    ASSERT_TRUE(fault::arm("backing.read=EIO*1").ok());
    std::vector<ChunkKey> keys{sample_key(1), sample_key(2)};
    EXPECT_EQ(store->relocate(keys).value(), 1U);
    EXPECT_EQ(read(sample_key(1)).outcome, Read::Outcome::miss);
    EXPECT_TRUE(read(sample_key(2)).bytes == random_bytes(70000, 2));
}

// Writers replace what is being moved; readers must see one of the two, and room must not leak.
TEST_F(RelocateTest, WhatIsReplacedMeanwhileStaysReplaced) {
    std::vector<ChunkKey> keys;
    for (uint32_t i = 0; i < 4; ++i) keys.push_back(sample_key(i));
    std::atomic<bool> stop{false};
    std::jthread mover([&] {
        while (!stop) {
            Result<size_t> moved = store->relocate(keys);
            ASSERT_TRUE(moved.ok() || moved.status().errno_value() == ENOSPC) << moved.status().message();
        }
    });
    for (uint32_t round = 0; round < 300; ++round) {
        std::string data = random_bytes(20000, round);
        Status status = put(sample_key(round % 4), data);
        if (status.errno_value() == ENOSPC) continue;
        ASSERT_TRUE(status.ok()) << status.message();
        ASSERT_TRUE(read(sample_key(round % 4)).bytes == data) << round;
    }
    stop = true;
    mover.join();
    EXPECT_EQ(store->usage().records, 4U);
    EXPECT_EQ(store->usage().live, 4U * 20480);
}

TEST_F(RelocateTest, ASpareSegmentIsForMovingAlone) {
    store.reset();
    io::BufferPool pool({.limit = 16 * mib});
    auto engine = io::Engine::start({.lanes = 1});
    auto opened = LocalStore::open({.folder = folder.path(),
                                    .capacity = 12 * mib,
                                    .reserve = 0,
                                    .segment_size = 4 * mib,
                                    .spare_segments = 1,
                                    .index = {}},
                                   **engine, pool);
    ASSERT_TRUE(opened.ok());
    std::string data = random_bytes(mib, 1);
    std::vector<ChunkKey> keys;
    for (uint32_t i = 0; i < 20; ++i) {
        LocalStore::Entry entry{sample_key(i), {data.data(), data.size()}};
        Status status = (*opened)->put({&entry, 1}, LocalStore::Kind::clean);
        ASSERT_EQ(status.errno_value(), i < 8 ? 0 : ENOSPC) << i;
    }
    LocalStore::Entry kept{sample_key(30), {data.data(), data.size()}};
    EXPECT_EQ(
        (*opened)->put({&kept, 1}, LocalStore::Kind::clean, {.stream = Stream::kept, .lifetime = {}}).errno_value(),
        ENOSPC);
    for (uint32_t i = 0; i < 4; ++i) keys.push_back(sample_key(i));
    EXPECT_EQ((*opened)->relocate(keys).value(), 4U);
}

TEST_F(RelocateTest, WhatHasExpiredIsAMiss) {
    std::string data = "short-lived";
    LocalStore::Entry entry{sample_key(1), {data.data(), data.size()}};
    auto now = static_cast<uint32_t>(time(nullptr));
    ASSERT_TRUE(store->put({&entry, 1}, LocalStore::Kind::clean, {.lifetime = {.pinned = true, .expires = now}}).ok());
    EXPECT_EQ(read(sample_key(1)).outcome, Read::Outcome::miss);
    EXPECT_TRUE(store->set_lifetime(sample_key(1), {.pinned = true, .expires = now + 1000}).value());
    EXPECT_EQ(read(sample_key(1)).bytes, data);
    EXPECT_FALSE(store->set_lifetime(sample_key(2), {}).value());
}

}  // namespace
}  // namespace fabric::store
