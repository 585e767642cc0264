#include "fsal_fabric/data/residency.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "common/unique_fd.h"

namespace fabric::fsal {
namespace {

constexpr size_t mib = 1 << 20;

class Residency : public testing::Test {
  protected:
    void SetUp() override {
        const char* folder = getenv("TMPDIR");
        path_ = std::string(folder != nullptr ? folder : "/tmp") + "/residency_test.XXXXXX";
        file_.reset(mkostemp(path_.data(), O_CLOEXEC));
        ASSERT_TRUE(file_);
        std::string content(4 * mib, 'r');
        ASSERT_EQ(pwrite(file_.get(), content.data(), content.size(), 0), static_cast<ssize_t>(content.size()));
        ASSERT_EQ(fsync(file_.get()), 0);
        ASSERT_EQ(posix_fadvise(file_.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
        if (mostly_cached(file_.get(), 0, mib))
            GTEST_SKIP() << "the file system of " << path_ << " keeps its data in memory";
    }
    void TearDown() override { unlink(path_.c_str()); }
    void load(uint64_t offset, size_t length) {
        posix_fadvise(file_.get(), 0, 0, POSIX_FADV_RANDOM);  // no read-ahead beyond
        std::string memory(length, 'x');
        ASSERT_EQ(pread(file_.get(), memory.data(), length, static_cast<off_t>(offset)), static_cast<ssize_t>(length));
    }
    std::string path_;
    UniqueFd file_;
};

TEST_F(Residency, AskingDoesNotLoad) {
    for (int i = 0; i < 100; ++i) EXPECT_FALSE(mostly_cached(file_.get(), 0, 4 * mib));
}

TEST_F(Residency, HalfOfThePagesMakeTheDifference) {
    load(mib, mib / 2);
    EXPECT_TRUE(mostly_cached(file_.get(), mib, mib));
    EXPECT_FALSE(mostly_cached(file_.get(), mib, 2 * mib));
    EXPECT_FALSE(mostly_cached(file_.get(), 0, mib));
}

TEST_F(Residency, UnalignedRangesCountTheirPages) {
    load(2 * mib, 8192);
    EXPECT_TRUE(mostly_cached(file_.get(), 2 * mib + 4095, 2));
    EXPECT_FALSE(mostly_cached(file_.get(), 3 * mib - 1, 1));
}

}  // namespace
}  // namespace fabric::fsal
