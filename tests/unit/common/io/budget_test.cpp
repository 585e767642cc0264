#include "common/io/budget.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace fabric::io {
namespace {

struct Recorder : Budget::Waiter {
    explicit Recorder(size_t wanted, std::vector<int>* log, int number) : order(log), id(number) {
        bytes = wanted;
        granted = [](Budget::Waiter& waiter) {
            auto& self = static_cast<Recorder&>(waiter);
            self.order->push_back(self.id);
        };
    }
    std::vector<int>* order;
    int id;
};

TEST(Budget, GrantsInOrderOfArrivalAndNeverPastTheLimit) {
    Budget budget(100);
    std::vector<int> order;
    Recorder first(60, &order, 1), second(60, &order, 2), third(10, &order, 3);
    EXPECT_TRUE(budget.acquire(first));
    EXPECT_FALSE(budget.acquire(second));
    EXPECT_FALSE(budget.acquire(third)) << "a small request must not overtake one that waits";
    EXPECT_FALSE(budget.try_acquire(1));
    EXPECT_EQ(budget.waiting(), 2U);
    budget.release(60);
    EXPECT_EQ(order, (std::vector<int>{2, 3}));
    EXPECT_EQ(budget.used(), 70U);
    budget.release(60);
    budget.release(10);
    EXPECT_EQ(budget.used(), 0U);
}

TEST(Budget, ARequestLargerThanTheLimitRunsAlone) {
    Budget budget(100);
    std::vector<int> order;
    Recorder small(10, &order, 1), large(1000, &order, 2);
    EXPECT_TRUE(budget.acquire(small));
    EXPECT_FALSE(budget.acquire(large));
    budget.release(10);
    EXPECT_EQ(order, (std::vector<int>{2}));
    EXPECT_FALSE(budget.try_acquire(1));
    budget.release(1000);
    EXPECT_TRUE(budget.try_acquire(100));
}

struct Owner : Budget::Waiter {
    std::atomic<bool> mine{false};
};

// Every waiter is granted exactly once, whatever the interleaving; a lost wake-up would hang (the test has a time-out).
TEST(Budget, LosesNoWakeUp) {
    Budget budget(3);
    std::atomic<size_t> most{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&] {
            for (int i = 0; i < 20000; ++i) {
                Owner owner;
                owner.bytes = 1 + static_cast<size_t>(i) % 3;
                owner.granted = [](Budget::Waiter& waiter) {
                    auto& self = static_cast<Owner&>(waiter);
                    self.mine.store(true);
                    self.mine.notify_one();
                };
                if (!budget.acquire(owner)) owner.mine.wait(false);
                if (i % 8 == 0) std::this_thread::yield();
                size_t used = budget.used();
                size_t seen = most.load();
                while (used > seen && !most.compare_exchange_weak(seen, used)) {
                }
                budget.release(owner.bytes);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(budget.used(), 0U);
    EXPECT_EQ(budget.waiting(), 0U);
    EXPECT_LE(most.load(), 3U);
}

}  // namespace
}  // namespace fabric::io
