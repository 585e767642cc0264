#include "fsal_fabric/data/verifier.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "common/unique_fd.h"

namespace fabric::fsal {
namespace {

struct statx stat_with(const char* verifier) {
    std::string path = "/tmp/verifier_test.XXXXXX";
    UniqueFd file(mkostemp(path.data(), O_CLOEXEC));
    EXPECT_EQ(futimens(file.get(), verifier_times(verifier).data()), 0);
    struct statx status {};
    EXPECT_EQ(statx(file.get(), "", AT_EMPTY_PATH, STATX_BASIC_STATS, &status), 0);
    unlink(path.c_str());
    return status;
}

TEST(Verifier, IsFoundAgainInTheFilesTimes) {
    for (const char* verifier :
         {"\0\0\0\0\0\0\0", "verifier", "\xff\xff\xff\xff\xff\xff\xff\xff", "\x01\0\0\x80\x02\0\0"})
        EXPECT_TRUE(has_verifier(stat_with(verifier), verifier));
}

TEST(Verifier, AnotherOneIsNotFound) {
    struct statx status = stat_with("verifier");
    EXPECT_FALSE(has_verifier(status, "verifies"));
    EXPECT_FALSE(has_verifier(status, "Verifier"));
    status.stx_mtime.tv_nsec = 1;  // the file was written to since
    EXPECT_FALSE(has_verifier(status, "verifier"));
}

TEST(Verifier, TheTimesAreOnesThatEveryFileSystemCanKeep) {
    for (const timespec& time : verifier_times("\xff\xff\xff\xff\xff\xff\xff\xff")) {
        EXPECT_EQ(time.tv_sec, INT32_MAX);
        EXPECT_EQ(time.tv_nsec, 0);
    }
}

}  // namespace
}  // namespace fabric::fsal
