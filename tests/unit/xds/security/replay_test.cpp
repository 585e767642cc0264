#include "xds/security/replay.h"

#include <gtest/gtest.h>

#include <cstring>

namespace fabric::xds::security {
namespace {

using Answer = ReplayWindow::Answer;
constexpr uint64_t second = 1'000'000'000, now = 1000 * second;

Id nonce(unsigned value) {
    Id id{};
    std::memcpy(id.data(), &value, sizeof value);
    return id;
}

TEST(ReplayWindow, ANonceIsTakenOnce) {
    ReplayWindow window(60 * second, 100);
    EXPECT_EQ(window.admit(nonce(1), now, now), Answer::fresh);
    EXPECT_EQ(window.admit(nonce(1), now, now), Answer::replayed);
    EXPECT_EQ(window.admit(nonce(1), now + second, now), Answer::replayed) << "another time does not make it fresh";
    EXPECT_EQ(window.admit(nonce(2), now, now), Answer::fresh);
}

TEST(ReplayWindow, TimesOutsideAreRefusedBothWays) {
    ReplayWindow window(60 * second, 100);
    EXPECT_EQ(window.admit(nonce(1), now - 61 * second, now), Answer::wrong_time);
    EXPECT_EQ(window.admit(nonce(1), now + 61 * second, now), Answer::wrong_time);
    EXPECT_EQ(window.admit(nonce(1), now + 60 * second, now), Answer::fresh);
    EXPECT_EQ(window.admit(nonce(1), now + 60 * second, now + 119 * second), Answer::replayed);
}

TEST(ReplayWindow, FullRefusesAndOldOnesMakeRoom) {
    ReplayWindow window(60 * second, 3);
    for (unsigned i = 0; i < 3; ++i) EXPECT_EQ(window.admit(nonce(i), now, now), Answer::fresh);
    EXPECT_EQ(window.admit(nonce(9), now, now), Answer::full);
    EXPECT_EQ(window.admit(nonce(0), now, now), Answer::replayed);
    uint64_t later = now + 61 * second;
    EXPECT_EQ(window.admit(nonce(9), later, later), Answer::fresh);
}

}  // namespace
}  // namespace fabric::xds::security
