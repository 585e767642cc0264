#include "fsal_fabric/data/reply_memory.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

namespace fabric::fsal {
namespace {

constexpr size_t mib = 1 << 20;

struct Reply : ReplyMemory::Ticket {
    explicit Reply(size_t wanted) {
        bytes = wanted;
        granted = [](ReplyMemory::Ticket& ticket) {
            auto& self = static_cast<Reply&>(ticket);
            self.there = true;
            self.there.notify_one();
        };
    }
    std::atomic<bool> there{false};
};

class ReplyMemoryTest : public testing::Test {
  protected:
    io::BufferPool pool{{.limit = 64 * mib, .idle_seconds = 1000000}};
    ReplyMemory memory{pool};
    int one = 0, two = 0;  // connections

    // Asks for 1 MiB replies until one has to wait; the last element is the one that waits.
    std::vector<std::unique_ptr<Reply>> fill(const void* connection) {
        std::vector<std::unique_ptr<Reply>> replies;
        do {
            replies.push_back(std::make_unique<Reply>(mib));
        } while (memory.take(*replies.back(), connection));
        return replies;
    }
};

TEST_F(ReplyMemoryTest, OneConnectionCannotTakeItAll) {
    auto held = fill(&one);
    EXPECT_LE(pool.lent(), 16 * mib);
    Reply other(mib);
    ASSERT_TRUE(memory.take(other, &two)) << "another connection is served at once";
    EXPECT_EQ(other.granted_bytes, mib);
    EXPECT_FALSE(held.back()->there);
    Reply behind(4096);
    EXPECT_FALSE(memory.take(behind, &one)) << "a small reply does not overtake those that wait";
    ReplyMemory::release(other.buffer);
    EXPECT_FALSE(held.back()->there) << "it waits for replies of its own connection";
    for (size_t i = 0; i + 1 < held.size(); ++i) ReplyMemory::release(held[i]->buffer);
    EXPECT_TRUE(held.back()->there);
    EXPECT_TRUE(behind.there);
    ReplyMemory::release(held.back()->buffer);
    ReplyMemory::release(behind.buffer);
    EXPECT_EQ(pool.lent(), 0U);
}

TEST_F(ReplyMemoryTest, AHundredGreedyConnectionsLeaveSomethingForTheNext) {
    std::vector<int> connections(100);
    std::vector<std::vector<std::unique_ptr<Reply>>> all;
    for (int& connection : connections) all.push_back(fill(&connection));
    EXPECT_LE(pool.lent(), pool.limit());
    Reply fresh(mib);
    ASSERT_TRUE(memory.take(fresh, &one));
    EXPECT_GE(fresh.granted_bytes, size_t{64} << 10);
    EXPECT_GE(fresh.buffer->capacity(), fresh.granted_bytes);
    ReplyMemory::release(fresh.buffer);
    for (auto& replies : all) {
        for (size_t i = 0; i + 1 < replies.size(); ++i) ReplyMemory::release(replies[i]->buffer);
        ASSERT_TRUE(replies.back()->there);
        ReplyMemory::release(replies.back()->buffer);
    }
    EXPECT_EQ(pool.lent(), 0U);
}

TEST_F(ReplyMemoryTest, TryTakeGivesAllOrNothing) {
    auto held = fill(&one);
    EXPECT_EQ(memory.try_take(mib, &one), nullptr);
    io::BufferPool::Buffer* buffer = memory.try_take(mib, &two);
    ASSERT_NE(buffer, nullptr);
    ReplyMemory::release(buffer);
    for (size_t i = 0; i + 1 < held.size(); ++i) ReplyMemory::release(held[i]->buffer);
    ASSERT_TRUE(held.back()->there);
    ReplyMemory::release(held.back()->buffer);
}

// Whatever the interleaving, every reply gets its buffer; a lost one would hang (the test has a time-out).
TEST_F(ReplyMemoryTest, NobodyIsForgotten) {
    std::vector<std::thread> threads;
    std::vector<int> connections(2);
    for (unsigned t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            std::mt19937 random(t);
            for (int i = 0; i < 200; ++i) {
                std::vector<std::unique_ptr<Reply>> batch;
                for (int n = 0; n < 8; ++n) {
                    batch.push_back(std::make_unique<Reply>(1 + random() % (4 * mib)));
                    if (memory.take(*batch.back(), &connections[t % 2])) batch.back()->there = true;
                }
                for (auto& reply : batch) {
                    reply->there.wait(false);
                    ReplyMemory::release(reply->buffer);
                }
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(pool.lent(), 0U);
}

}  // namespace
}  // namespace fabric::fsal
