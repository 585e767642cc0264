#include "burstbuffer/cache/memory_tier.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "burstbuffer/placement/rendezvous.h"
#include "tests/unit/burstbuffer/sample.h"

namespace fabric::cache {
namespace {

uint64_t hash(const index::ChunkKey& key) { return placement::stable_hash(key.encode()); }
std::string content(uint64_t number) {
    return std::string(1 + number * 31 % 5000, static_cast<char>('a' + number % 26));
}

struct Tier : MemoryTier {
    using MemoryTier::MemoryTier;
    void add(uint64_t number) { put(sample_key(number), hash(sample_key(number)), content(number)); }
    bool has(uint64_t number) {
        Data data = find(sample_key(number), hash(sample_key(number)));
        EXPECT_TRUE(data == nullptr || *data == content(number));
        return data != nullptr;
    }
};

TEST(MemoryTier, GivesBackWhatItHoldsWithinItsMemory) {
    Tier tier(1 << 20);
    for (uint64_t i = 0; i < 5000; ++i) tier.add(i);
    EXPECT_LE(tier.bytes(), size_t{1} << 20);
    size_t held = 0;
    for (uint64_t i = 0; i < 5000; ++i) held += tier.has(i);
    EXPECT_GT(held, 200U);
    EXPECT_LT(held, 1000U);
}

TEST(MemoryTier, WhatIsUsedOutlivesWhatIsNot) {
    Tier tier(1 << 20);
    for (uint64_t i = 0; i < 50; ++i) tier.add(i);
    for (uint64_t i = 1000; i < 6000; ++i) {
        tier.add(i);
        if (i % 20 == 0)
            for (uint64_t used = 0; used < 50; ++used) tier.has(used);
    }
    size_t held = 0;
    for (uint64_t i = 0; i < 50; ++i) held += tier.has(i);
    EXPECT_GT(held, 45U);
}

TEST(MemoryTier, VersionsAreApartAndAFileIsDroppedWhole) {
    Tier tier(1 << 20);
    index::ChunkKey old = sample_key(1, 0, 10), now = sample_key(1, 0, 11);
    tier.put(old, hash(old), "old");
    EXPECT_EQ(tier.find(now, hash(now)), nullptr);
    EXPECT_EQ(tier.find(now, hash(old)), nullptr) << "another key with the same hash";
    tier.put(now, hash(now), "new");
    MemoryTier::Data held = tier.find(old, hash(old));
    tier.drop_file(sample_file(1));
    EXPECT_EQ(*held, "old") << "a reader still has it";
    EXPECT_EQ(tier.find(old, hash(old)), nullptr);
    EXPECT_EQ(tier.find(now, hash(now)), nullptr);
    EXPECT_EQ(tier.bytes(), 0U);
}

TEST(MemoryTier, LargeOnesAreNotTakenNorAnythingWithoutMemory) {
    Tier tier(64 << 20), none(0);
    index::ChunkKey key = sample_key(1);
    tier.put(key, hash(key), std::string(MemoryTier::largest + 1, 'x'));
    none.put(key, hash(key), "x");
    EXPECT_EQ(tier.bytes() + none.bytes(), 0U);
}

TEST(MemoryTier, ManyThreads) {
    Tier tier(1 << 18);
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < 4; ++t) {
        threads.emplace_back([&tier, t] {
            std::mt19937 random(t);
            for (int i = 0; i < 20000; ++i) {
                uint64_t number = random() % 200;
                if (!tier.has(number)) tier.add(number);
                if (i % 1000 == 0) tier.drop_file(sample_file(number));
            }
        });
    }
    threads.clear();
    EXPECT_LE(tier.bytes(), size_t{1} << 18);
}

}  // namespace
}  // namespace fabric::cache
