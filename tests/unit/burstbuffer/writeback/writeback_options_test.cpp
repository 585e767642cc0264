#include <gtest/gtest.h>

#include "burstbuffer/writeback/options.h"

namespace fabric::writeback {
namespace {

TEST(Rules, MatchPaths) {
    struct Case {
        const char* pattern;
        const char* path;
        bool matches;
    };
    constexpr Case cases[] = {
        {"/ckpt/**", "/ckpt/a", true},
        {"/ckpt/**", "/ckpt/a/b/c", true},
        {"/ckpt/**", "/ckpt", false},
        {"/ckpt/**", "/ckpts/a", false},
        {"/ckpt/**", "/other/ckpt/a", false},
        {"/ckpt/*", "/ckpt/a", true},
        {"/ckpt/*", "/ckpt/a/b", false},
        {"/ckpt/*.pt", "/ckpt/step-1.pt", true},
        {"/ckpt/*.pt", "/ckpt/step-1.pt.tmp", false},
        {"/ckpt/*.pt", "/ckpt/.pt.pt", true},
        {"/**/*.pt", "/a/b/c.pt", true},
        {"/**/*.pt", "/c.pt", false},
        {"/**.pt", "/c.pt", true},
        {"/**/x/*/y", "/a/x/b/x/c/y", true},
        {"/**/x/*/y", "/a/x/b/c/y", false},
        {"/a?c", "/abc", true},
        {"/a?c", "/a/c", false},
        {"/a**", "/a", true},
        {"/exact", "/exact", true},
        {"/exact", "/exactly", false},
        {"/*a*b*c/**", "/xaybzc/d", true},
        {"/*a*b*c/**", "/xaybz/c/d", false},
    };
    for (const Case& one : cases) {
        EXPECT_EQ(matches(one.pattern, one.path), one.matches) << one.pattern << " " << one.path;
    }
}

// Against a matcher that tries everything.
bool slowly(std::string_view pattern, std::string_view path) {
    if (pattern.empty()) return path.empty();
    if (pattern.starts_with("**")) {
        for (size_t i = 0; i <= path.size(); ++i) {
            if (slowly(pattern.substr(2), path.substr(i))) return true;
        }
        return false;
    }
    if (pattern.front() == '*') {
        for (size_t i = 0; i <= path.size(); ++i) {
            if (slowly(pattern.substr(1), path.substr(i))) return true;
            if (i < path.size() && path[i] == '/') return false;
        }
        return false;
    }
    if (path.empty()) return false;
    bool same = pattern.front() == path.front() || (pattern.front() == '?' && path.front() != '/');
    return same && slowly(pattern.substr(1), path.substr(1));
}

TEST(Rules, MatchAsOneThatTriesEverything) {
    uint64_t state = 1;
    auto next = [&state] { return (state = state * 6364136223846793005ULL + 1442695040888963407ULL) >> 33; };
    size_t matched = 0;
    for (int round = 0; round < 100000; ++round) {
        std::string pattern, path;
        constexpr std::string_view pieces[] = {"a", "b", "/", "*", "**", "?"};
        for (uint64_t i = next() % 8; i > 0; --i) pattern += pieces[next() % std::size(pieces)];
        for (uint64_t i = next() % 8; i > 0; --i) path += "ab/"[next() % 3];
        // Three stars are two and one, in whichever order they are read.
        if (pattern.find("***") != std::string::npos) continue;
        ASSERT_EQ(matches(pattern, path), slowly(pattern, path)) << pattern << " " << path;
        matched += matches(pattern, path) ? 1 : 0;
    }
    EXPECT_GT(matched, 1000U);
}

}  // namespace
}  // namespace fabric::writeback
