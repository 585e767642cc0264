#include "xds/client/pace.h"

#include <gtest/gtest.h>

namespace fabric::xds::client {
namespace {

using namespace std::chrono_literals;
using Route = Pace::Route;

const Pace::Sort large{nullptr, 0, true, 8 << 20};

// Asks for a way and says how long the request took: as many nanoseconds a byte as `direct` or `staged` has.
Route request(Pace& pace, const Pace::Sort& sort, int direct, int staged) {
    Route route = pace.choose(sort);
    pace.add(sort, route, sort.length,
             std::chrono::nanoseconds(sort.length * static_cast<uint64_t>(route == Route::direct ? direct : staged)));
    return route;
}

TEST(Pace, BothAreMeasuredThenTheFasterIsTaken) {
    for (auto [direct, staged, faster] : {std::tuple(1, 2, Route::direct), std::tuple(2, 1, Route::staged)}) {
        Pace pace;
        for (unsigned i = 0; i < Pace::first_samples; ++i)
            EXPECT_EQ(request(pace, large, direct, staged), Route::direct);
        for (unsigned i = 0; i < Pace::first_samples; ++i) {
            EXPECT_FALSE(pace.measured(large));
            EXPECT_EQ(request(pace, large, direct, staged), Route::staged);
        }
        EXPECT_TRUE(pace.measured(large));
        unsigned other = 0;
        for (unsigned i = 0; i < 10 * Pace::again_every; ++i)
            other += request(pace, large, direct, staged) != faster ? 1 : 0;
        EXPECT_EQ(other, 10u);
    }
}

TEST(Pace, WhatChangesIsSeen) {
    Pace pace;
    for (unsigned i = 0; i < 20; ++i) request(pace, large, 1, 2);
    EXPECT_EQ(pace.likely(large), Route::direct);
    for (unsigned i = 0; i < 20; ++i) request(pace, large, 9, 2);
    EXPECT_EQ(pace.likely(large), Route::staged);
    // The way that is not taken any more becomes the faster one: found by its samples alone.
    for (unsigned i = 0; i < 12 * Pace::again_every; ++i) request(pace, large, 1, 2);
    EXPECT_EQ(pace.likely(large), Route::direct);
}

TEST(Pace, DevicesDirectionsAndSizesAreApart) {
    Pace pace;
    Pace::Sort other = large, writes = large, small = large;
    other.device = 1;
    writes.reads = false;
    small.length = 4096;
    for (int i = 0; i < 20; ++i) request(pace, large, 2, 1);
    EXPECT_EQ(pace.likely(large), Route::staged);
    for (const Pace::Sort& sort : {other, writes, small}) EXPECT_EQ(pace.likely(sort), Route::direct);
}

TEST(Pace, NothingMovedSaysNothing) {
    Pace pace;
    for (int i = 0; i < 100; ++i) pace.add(large, Route::direct, 0, 1ms);
    EXPECT_EQ(pace.choose(large), Route::direct);
    EXPECT_FALSE(pace.measured(large));
}

}  // namespace
}  // namespace fabric::xds::client
