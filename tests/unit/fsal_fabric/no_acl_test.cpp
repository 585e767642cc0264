#include "fsal_fabric/no_acl.h"

#include <gtest/gtest.h>
#include <time.h>

namespace fabric::fsal {
namespace {

struct statx changed_before(int64_t milliseconds) {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t then = now.tv_sec * 1'000'000'000 + now.tv_nsec - milliseconds * 1'000'000;
    struct statx status {};
    status.stx_ctime.tv_sec = then / 1'000'000'000;
    status.stx_ctime.tv_nsec = static_cast<uint32_t>(then % 1'000'000'000);
    return status;
}

TEST(NoAcl, HoldsForNothingAtFirst) {
    NoAcl none;
    EXPECT_FALSE(none.holds_for(changed_before(1000)));
    EXPECT_FALSE(none.holds_for({}));
}

TEST(NoAcl, HoldsUntilTheNextChange) {
    NoAcl none;
    struct statx status = changed_before(1000);
    none.remember(status);
    EXPECT_TRUE(none.holds_for(status));
    ++status.stx_ctime.tv_nsec;
    EXPECT_FALSE(none.holds_for(status));
}

// A list that comes within the same tick has the same ctime.
TEST(NoAcl, IsNotBelievedOfAChangeThatHasJustBeen) {
    NoAcl none;
    struct statx status = changed_before(0);
    none.remember(status);
    EXPECT_FALSE(none.holds_for(status));
}

}  // namespace
}  // namespace fabric::fsal
