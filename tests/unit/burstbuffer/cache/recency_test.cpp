#include "burstbuffer/cache/recency.h"

#include <gtest/gtest.h>

#include <thread>

#include "burstbuffer/placement/rendezvous.h"

namespace fabric::cache {
namespace {

constexpr size_t kib = 1024;

uint64_t hash(uint64_t number) { return placement::stable_hash(std::to_string(number)); }

TEST(Recency, KnowsHowMuchWentBySince) {
    Recency recency(1 << 16, 0);
    EXPECT_FALSE(recency.use(hash(0), 64 * kib));
    for (uint64_t i = 1; i < 100; ++i) EXPECT_FALSE(recency.use(hash(i), 64 * kib));
    EXPECT_EQ(recency.look(hash(0))->distance, 99 * 64 * kib);
    EXPECT_EQ(recency.use(hash(0), 64 * kib)->distance, 100 * 64 * kib);
    EXPECT_EQ(recency.look(hash(0))->distance, 0U);
    EXPECT_FALSE(recency.look(hash(1000)));
}

TEST(Recency, CountsUsesAndForgetsThem) {
    Recency recency(1 << 16, 0);
    recency.use(hash(1), 4 * kib);
    EXPECT_EQ(recency.look(hash(1))->uses, 0U) << "the first one brings it in";
    for (int i = 0; i < 9; ++i) recency.use(hash(1), 4 * kib);
    EXPECT_EQ(recency.look(hash(1))->uses, 3U);
    recency.pass(hash(1));
    EXPECT_EQ(recency.look(hash(1))->uses, 2U);
    recency.leave(hash(1));
    EXPECT_EQ(recency.look(hash(1))->uses, 0U);
    recency.pass(hash(1));
    EXPECT_EQ(recency.look(hash(1))->uses, 0U);
    recency.pass(hash(2)), recency.leave(hash(3));
}

TEST(Recency, PartsOfOneReadAreOneUse) {
    Recency recency(1 << 16, 1024 * kib);
    for (int part = 0; part < 16; ++part) recency.use(hash(1), 32 * kib);
    EXPECT_EQ(recency.look(hash(1))->uses, 0U);
    for (int i = 0; i < 16; ++i) recency.use(hash(2), 64 * kib);
    recency.use(hash(1), 32 * kib);
    EXPECT_EQ(recency.look(hash(1))->uses, 1U);
    // What is used all the time is used often, though no two uses are far apart.
    for (int i = 0; i < 200; ++i) recency.use(hash(3), 32 * kib);
    EXPECT_EQ(recency.look(hash(3))->uses, 3U);
}

TEST(Recency, RemembersTheLatestWithinItsMemory) {
    Recency recency(4096, 0);
    for (uint64_t i = 0; i < 100000; ++i) recency.use(hash(i), 4 * kib);
    size_t known = 0;
    for (uint64_t i = 100000 - 1000; i < 100000; ++i) known += recency.look(hash(i)).has_value();
    EXPECT_GT(known, 980U);
    for (uint64_t i = 0; i < 1000; ++i) EXPECT_FALSE(recency.look(hash(i))) << i;
}

TEST(Recency, ManyThreads) {
    Recency recency(1 << 12, 0);
    std::vector<std::jthread> threads;
    for (uint64_t t = 0; t < 4; ++t) {
        threads.emplace_back([&recency, t] {
            for (uint64_t i = 0; i < 20000; ++i) {
                recency.use(hash(i % 100 + t * 50), 4 * kib);
                recency.pass(hash(i % 77));
                recency.leave(hash(i % 55));
            }
        });
    }
    threads.clear();
    EXPECT_EQ(recency.now(), 4 * 20000 * 4 * kib);
}

}  // namespace
}  // namespace fabric::cache
