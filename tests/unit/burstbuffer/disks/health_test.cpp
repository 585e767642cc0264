#include "burstbuffer/disks/health.h"

#include <gtest/gtest.h>

namespace fabric::disks {
namespace {

using namespace std::chrono_literals;
using State = Health::State;

constexpr Time start{std::chrono::hours(100)};

TEST(Health, SomeFailuresInAShortTimeSendItToRest) {
    Health health({});
    EXPECT_FALSE(health.failed(start));
    EXPECT_FALSE(health.failed(start + 20s));
    EXPECT_FALSE(health.failed(start + 21s));
    EXPECT_EQ(health.state(), State::good);
    EXPECT_TRUE(health.failed(start + 22s));
    EXPECT_EQ(health.state(), State::resting);
    EXPECT_FALSE(health.failed(start + 22s)) << "what was under way fails too";
    EXPECT_FALSE(health.probe_due(start + 22s));
    EXPECT_TRUE(health.probe_due(start + 23s));
    health.probed(true, start + 23s);
    EXPECT_EQ(health.state(), State::good);
}

// From the first rest on; a probe takes no time here.
Duration until_retired(Health& health, bool probes_go_well) {
    Time now = start;
    auto fail = [&] {
        for (int i = 0; i < 3; ++i) health.failed(now);
    };
    fail();
    while (health.state() != State::retired) {
        EXPECT_LT(now, start + std::chrono::hours(1));
        if (health.state() == State::good) {
            now += 10s;
            fail();
            continue;
        }
        while (!health.probe_due(now)) now += 100ms;
        health.probed(probes_go_well, now);
    }
    return std::chrono::duration_cast<Duration>(now - start);
}

TEST(Health, ADiskThatStaysBadIsRetiredInBoundedTime) {
    Health health({});
    EXPECT_EQ(until_retired(health, false), 121s);
}

TEST(Health, ADiskThatOnlyPassesItsProbesIsRetiredToo) {
    Health health({});
    EXPECT_LE(until_retired(health, true), 250s);
}

TEST(Health, AfterALongTimeWithoutARestTheRowIsOver) {
    Health health({});
    Time now = start;
    for (int round = 0; round < 50; ++round) {
        for (int i = 0; i < 3; ++i) health.failed(now);
        ASSERT_EQ(health.state(), State::resting);
        ASSERT_TRUE(health.probe_due(now + 1s)) << "its rest is short again";
        health.probed(true, now + 1s);
        now += 400s;
    }
}

}  // namespace
}  // namespace fabric::disks
