#include "common/io/buffer_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace fabric::io {
namespace {

constexpr size_t mib = 1 << 20;

BufferPool::Options no_trimming(size_t limit) { return {.limit = limit, .idle_seconds = 1000000}; }

TEST(BufferPool, BuffersAreAlignedLargeEnoughAndDistinct) {
    BufferPool pool(no_trimming(256 * mib));
    std::vector<LentBuffer> held;
    std::set<std::pair<char*, char*>> ranges;
    for (size_t bytes : {size_t{1}, size_t{4096}, size_t{4097}, size_t{70000}, mib - 1, mib, mib + 1, 5 * mib}) {
        for (int i = 0; i < 3; ++i) {
            LentBuffer buffer(pool.try_take(bytes));
            ASSERT_TRUE(buffer);
            EXPECT_GE(buffer->capacity(), bytes);
            EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 4096, 0U);
            ranges.insert({buffer->data(), buffer->data() + buffer->capacity()});
            held.push_back(std::move(buffer));
        }
    }
    char* end = nullptr;
    for (auto& [from, to] : ranges) {
        EXPECT_GE(from, end);
        end = to;
    }
    held.clear();
    EXPECT_EQ(pool.lent(), 0U);
}

// Whether the machine has reserved pages or several nodes or not: memory is memory.
TEST(BufferPool, ReservedPagesAndNodesAreWishes) {
    BufferPool::Options options = no_trimming(64 * mib);
    options.numa_node = 0;
    options.reserved_huge_pages = true;
    BufferPool pool(options);
    std::vector<LentBuffer> held;
    for (size_t bytes : {size_t{4096}, mib, mib, mib, 5 * mib}) {
        held.emplace_back(pool.try_take(bytes));
        ASSERT_TRUE(held.back());
        std::memset(held.back()->data(), 'x', held.back()->capacity());
    }
    EXPECT_EQ(reinterpret_cast<uintptr_t>(BufferPool::block_of(held[1]->data())) % BufferPool::block_size, 0U);
    held.clear();
    pool.trim(0);
    EXPECT_EQ(pool.mapped(), 0U);
}

TEST(BufferPool, AffordableIsTheLargestBufferPaidFor) {
    EXPECT_EQ(BufferPool::affordable(4095), 0U);
    EXPECT_EQ(BufferPool::affordable(4096), 4096U);
    EXPECT_EQ(BufferPool::affordable((1 << 20) - 1), size_t{256} << 10);
    EXPECT_EQ(BufferPool::affordable(1 << 20), size_t{1} << 20);
    EXPECT_EQ(BufferPool::affordable((3 << 20) + 5), size_t{3} << 20);
}

TEST(BufferPool, LendsTheBufferThatWasJustGivenBack) {
    BufferPool pool(no_trimming(64 * mib));
    BufferPool::Buffer* first = pool.try_take(mib);
    BufferPool::give_back(first);
    size_t mapped = pool.mapped();
    for (int i = 0; i < 1000; ++i) {
        BufferPool::Buffer* again = pool.try_take(mib);
        BufferPool::give_back(again);
    }
    EXPECT_EQ(pool.mapped(), mapped);
}

TEST(BufferPool, LimitHoldsAndWaitersAreServedInOrder) {
    BufferPool pool(no_trimming(2 * mib));
    LentBuffer one(pool.try_take(mib)), two(pool.try_take(mib));
    ASSERT_TRUE(one && two);
    EXPECT_EQ(pool.try_take(4096), nullptr);
    static std::vector<BufferPool::Ticket*> granted;
    granted.clear();
    BufferPool::Ticket first, second;
    for (BufferPool::Ticket* ticket : {&first, &second}) {
        ticket->bytes = mib;
        ticket->granted = [](BufferPool::Ticket& done) { granted.push_back(&done); };
        EXPECT_FALSE(pool.take(*ticket));
    }
    two.reset();
    ASSERT_EQ(granted, (std::vector<BufferPool::Ticket*>{&first}));
    one.reset();
    ASSERT_EQ(granted, (std::vector<BufferPool::Ticket*>{&first, &second}));
    EXPECT_LE(pool.mapped(), 4 * mib);
    BufferPool::give_back(first.buffer);
    BufferPool::give_back(second.buffer);
    EXPECT_EQ(pool.lent(), 0U);
}

TEST(BufferPool, TrimUnmapsOnlySlabsThatNobodyUses) {
    BufferPool pool(no_trimming(256 * mib));
    LentBuffer kept(pool.try_take(4096));
    memset(kept->data(), 7, 4096);
    {
        std::vector<LentBuffer> burst;
        for (int i = 0; i < 64; ++i) burst.emplace_back(pool.try_take(mib));
    }
    EXPECT_GE(pool.mapped(), 64 * mib);
    pool.trim(0);
    EXPECT_EQ(pool.mapped(), 2 * mib);
    EXPECT_EQ(kept->data()[4095], 7);
    LentBuffer again(pool.try_take(mib));
    memset(again->data(), 1, mib);
}

TEST(BufferPool, GoesBackToTheKernelByItselfWhenIdle) {
    BufferPool pool({.limit = 64 * mib, .idle_seconds = 1});
    { LentBuffer buffer(pool.try_take(mib)); }
    EXPECT_GT(pool.mapped(), 0U);
    auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (pool.mapped() != 0 && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
    EXPECT_EQ(pool.mapped(), 0U);
}

TEST(BufferPool, SizesThatLieIdleMakeRoomForOthers) {
    BufferPool pool(no_trimming(8 * mib));
    for (size_t bytes : {size_t{4096}, size_t{16384}, size_t{65536}, 256 * size_t{1024}, mib}) {
        std::vector<LentBuffer> all;
        for (size_t taken = 0; taken < 8 * mib; taken += bytes) {
            all.emplace_back(pool.try_take(bytes));
            ASSERT_TRUE(all.back());
        }
        EXPECT_LE(pool.mapped(), 10 * mib);
    }
}

// Each holder stamps its buffer and finds the stamp unharmed, while the pool is trimmed under it.
TEST(BufferPool, NoTwoHoldersShareABuffer) {
    BufferPool pool(no_trimming(64 * mib));
    std::atomic<bool> stop{false};
    std::thread trimmer([&] {
        while (!stop) pool.trim(0);
    });
    std::vector<std::thread> threads;
    for (unsigned t = 1; t <= 4; ++t) {
        threads.emplace_back([&pool, t] {
            std::mt19937 random(t);
            for (unsigned i = 0; i < 1000; ++i) {
                LentBuffer buffer(pool.try_take(1 + random() % (300 << 10)));
                ASSERT_TRUE(buffer);
                uint32_t stamp = t << 24 | i;
                memcpy(buffer->data(), &stamp, sizeof stamp);
                memcpy(buffer->data() + buffer->capacity() - sizeof stamp, &stamp, sizeof stamp);
                std::this_thread::yield();
                ASSERT_EQ(memcmp(buffer->data(), &stamp, sizeof stamp), 0);
                ASSERT_EQ(memcmp(buffer->data() + buffer->capacity() - sizeof stamp, &stamp, sizeof stamp), 0);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    stop = true;
    trimmer.join();
    EXPECT_EQ(pool.lent(), 0U);
}

}  // namespace
}  // namespace fabric::io
