#include <gtest/gtest.h>

#include <cstdlib>

#include "burstbuffer/pool/model/model.h"

namespace fabric::pool::model {
namespace {

std::string said(const Result& result) {
    std::string text = result.wrong.value_or("nothing is wrong");
    for (const std::string& step : result.trace) text += "\n  " + step;
    return text;
}

// FABRIC_MODEL_EXPIRIES=2: 17.6 million states, a minute, 2 GiB.
TEST(Model, WithAllRulesNoOrderOfEventsLosesAnything) {
    Limits limits{.expiries = 1};
    if (const char* expiries = std::getenv("FABRIC_MODEL_EXPIRIES"))
        limits.expiries = static_cast<uint8_t>(std::atoi(expiries));
    Result result = explore({}, limits);
    EXPECT_FALSE(result.wrong) << said(result);
    EXPECT_GT(result.states, 1'000'000u);
}

struct Without {
    const char* rule;
    Rules rules;
    const char* wrong;
    uint8_t kills = 0;
};

class ModelWithout : public testing::TestWithParam<Without> {};

TEST_P(ModelWithout, SomethingIsLost) {
    Result result = explore(GetParam().rules, {.expiries = 1, .kills = GetParam().kills});
    ASSERT_TRUE(result.wrong) << "rule " << GetParam().rule << " is not needed";
    EXPECT_NE(result.wrong->find(GetParam().wrong), std::string::npos) << said(result);
}

constexpr const char* back = "an older generation was acknowledged";
constexpr const char* nowhere = "neither the owner nor its replica has it";
constexpr const char* stale = "nobody owns the file, and the backing store has generation 1 for 2";

INSTANTIATE_TEST_SUITE_P(Rule, ModelWithout,
                         testing::Values(Without{"Fence", {.fence = false}, back},
                                         Without{"BothHaveIt", {.both_have_it = false}, nowhere},
                                         Without{"CheckBeforeAnswer", {.check_before_answer = false}, back},
                                         Without{"RefuseSuperseded", {.refuse_superseded = false}, nowhere},
                                         Without{"TakeOverGuard", {.take_over_guard = false}, back},
                                         Without{"Generations", {.generations = false}, stale},
                                         Without{"GuardedRelease", {.guarded_release = false}, stale},
                                         Without{"WaitForTheOld", {.wait_for_the_old = false}, stale},
                                         Without{"DrainAgain", {.drain_again = false}, stale},
                                         Without{"ReturnBeforeJoining", {.return_before_joining = false}, stale},
                                         Without{"KeepUntilReleased", {.keep_until_released = false}, nowhere},
                                         Without{"NameTheOld", {.name_the_old = false}, nowhere},
                                         Without{"RememberOnDisk", {.remember_on_disk = false}, nowhere, 1},
                                         Without{"OldInRecord", {.old_in_record = false}, stale},
                                         Without{"CopiesOfOneOwnership", {.copies_of_one_ownership = false}, nowhere}),
                         [](const auto& with) { return std::string(with.param.rule); });

}  // namespace
}  // namespace fabric::pool::model
