#include "burstbuffer/store/grace.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

namespace fabric::store {
namespace {

TEST(Grace, WaitsForThoseWhoWereInsideAndNotForLaterOnes) {
    Grace grace;
    Grace::Token before = grace.enter();
    uint64_t since = grace.now();
    EXPECT_FALSE(grace.passed(since));
    Grace::Token later = grace.enter();
    EXPECT_FALSE(grace.passed(since));
    Grace::leave(before);
    // The later one may have come in under the same parity as the first; one that comes in now has not.
    Grace::leave(later);
    EXPECT_TRUE(grace.passed(since));
    Grace::Token much_later = grace.enter();
    EXPECT_TRUE(grace.passed(since));
    EXPECT_FALSE(grace.passed(grace.now()));
    Grace::leave(much_later);
    EXPECT_TRUE(grace.passed(grace.now()));
}

// A writer moves a pointer between two slots and poisons the old one after the grace period: no reader sees poison.
TEST(Grace, NobodySeesWhatWasReused) {
    Grace grace;
    std::array<std::atomic<int>, 2> slots{};
    std::atomic<int> current{0};
    std::atomic<bool> stop{false};
    std::atomic<int> poisoned{0};
    std::vector<std::thread> readers;
    for (int i = 0; i < 3; ++i) {
        readers.emplace_back([&] {
            while (!stop) {
                Grace::Token token = grace.enter();
                int slot = current.load();
                for (int n = 0; n < 50; ++n) {
                    if (slots[static_cast<size_t>(slot)].load() != 0) ++poisoned;
                }
                Grace::leave(token);
            }
        });
    }
    for (int round = 0; round < 300; ++round) {
        int old = current.load();
        slots[static_cast<size_t>(1 - old)] = 0;
        current = 1 - old;
        uint64_t since = grace.now();
        while (!grace.passed(since)) std::this_thread::yield();
        slots[static_cast<size_t>(old)] = 1;
    }
    stop = true;
    for (std::thread& reader : readers) reader.join();
    EXPECT_EQ(poisoned, 0);
}

}  // namespace
}  // namespace fabric::store
