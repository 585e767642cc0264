#include "burstbuffer/placement/rendezvous.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace fabric::placement {
namespace {

constexpr uint64_t items = 60000;

uint64_t item(uint64_t number) { return stable_hash("item " + std::to_string(number)); }

std::vector<Member> members(std::initializer_list<double> weights) {
    std::vector<Member> all;
    for (double weight : weights) all.push_back({stable_hash("disk " + std::to_string(all.size())), weight});
    return all;
}

// Places on disk follow from it: another value here means that stores of before find nothing where they look first.
TEST(StableHash, IsTheSameForEver) {
    EXPECT_EQ(stable_hash(""), 0xf52a15e9a9b5e89bULL);
    EXPECT_EQ(stable_hash("fabric"), stable_hash(std::string("fab") + "ric"));
    EXPECT_NE(stable_hash(std::string_view("\0", 1)), stable_hash(std::string_view("\0\0", 2)));
}

TEST(Rendezvous, SharesAreAsTheWeights) {
    auto all = members({1, 2, 1, 4});
    std::map<size_t, uint64_t> share;
    for (uint64_t i = 0; i < items; ++i) ++share[order(item(i), all).front()];
    for (size_t i = 0; i < all.size(); ++i) {
        double expected = static_cast<double>(items) * all[i].weight / 8;
        EXPECT_NEAR(static_cast<double>(share[i]), expected, expected * 0.05) << "member " << i;
    }
}

TEST(Rendezvous, ALostMembersItemsMoveAndNoOthers) {
    auto all = members({1, 1, 3});
    auto left = all;
    left.erase(left.begin() + 1);
    for (uint64_t i = 0; i < items; ++i) {
        std::vector<size_t> before = order(item(i), all);
        uint64_t wanted = before.front() == 1 ? all[before[1]].id : all[before.front()].id;
        ASSERT_EQ(left[order(item(i), left).front()].id, wanted) << "and they go where they would have gone second";
    }
}

TEST(Rendezvous, MoreWeightOnlyDraws) {
    auto before = members({1, 1, 1}), after = members({1, 1.5, 1});
    for (uint64_t i = 0; i < items; ++i) {
        size_t now = order(item(i), after).front();
        ASSERT_TRUE(now == 1 || now == order(item(i), before).front());
    }
}

TEST(Rendezvous, NoWeightIsLast) {
    auto all = members({0, 1, -1});
    for (uint64_t i = 0; i < 1000; ++i) ASSERT_EQ(order(item(i), all).front(), 1U);
}

}  // namespace
}  // namespace fabric::placement
