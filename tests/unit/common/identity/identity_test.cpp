// Needs root: it takes other users' identities.
#include "common/identity/identity.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "common/unique_fd.h"

namespace fabric::identity {
namespace {

uid_t thread_uid() { return static_cast<uid_t>(::syscall(SYS_setfsuid, -1)); }
gid_t thread_gid() { return static_cast<gid_t>(::syscall(SYS_setfsgid, -1)); }

class IdentityTest : public testing::Test {
  protected:
    void SetUp() override {
        if (::geteuid() != 0) GTEST_SKIP() << "needs root";
        directory_ = "/tmp/identity_test.XXXXXX";
        ASSERT_NE(::mkdtemp(directory_.data()), nullptr);
        Result<std::unique_ptr<Pool>> pool = Pool::start(3);
        ASSERT_TRUE(pool.ok()) << pool.status().message();
        pool_ = std::move(pool).value();
    }
    void TearDown() override { std::filesystem::remove_all(directory_); }

    std::string directory_;
    std::unique_ptr<Pool> pool_;
};

TEST_F(IdentityTest, TheCallHasTheIdentityAndTheCallerKeepsItsOwn) {
    std::vector<gid_t> groups{7, 8, 9};
    Result<std::vector<gid_t>> seen = pool_->run_as({.uid = 1234, .gid = 567, .groups = groups}, [] {
        std::vector<gid_t> own(64);
        own.resize(static_cast<size_t>(::getgroups(64, own.data())));
        own.push_back(thread_uid());
        own.push_back(thread_gid());
        return own;
    });
    ASSERT_TRUE(seen.ok());
    EXPECT_EQ(*seen, (std::vector<gid_t>{7, 8, 9, 1234, 567}));
    EXPECT_EQ(thread_uid(), 0U);
    EXPECT_EQ(thread_gid(), 0U);
}

TEST_F(IdentityTest, FilesBelongToTheUserAndOthersFilesAreClosed) {
    ASSERT_EQ(::chmod(directory_.c_str(), 0777), 0);
    std::string path = directory_ + "/file";
    Result<int> made = pool_->run_as({.uid = 1001, .gid = 2001, .groups = {}}, [&] {
        UniqueFd fd(::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY, 0640));
        return fd ? 0 : errno;
    });
    EXPECT_EQ(*made, 0);
    struct stat status;
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_uid, 1001U);
    EXPECT_EQ(status.st_gid, 2001U);
    auto read_as = [&](uid_t uid, gid_t gid, std::span<const gid_t> groups) {
        return *pool_->run_as({.uid = uid, .gid = gid, .groups = groups}, [&] {
            UniqueFd fd(::open(path.c_str(), O_RDONLY));
            return fd ? 0 : errno;
        });
    };
    std::vector<gid_t> many(40);
    for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<gid_t>(1962 + i);  // the last is 2001
    EXPECT_EQ(read_as(1002, 2002, {}), EACCES);
    EXPECT_EQ(read_as(1002, 2001, {}), 0);
    EXPECT_EQ(read_as(1002, 2002, many), 0);
    EXPECT_EQ(read_as(1002, 2002, std::span(many).first(39)), EACCES);
    EXPECT_EQ(read_as(0, 0, {}), 0);
}

TEST_F(IdentityTest, AnIdentityThatTheKernelRefusesIsAnErrorAndTheNextCallWorks) {
    std::vector<gid_t> too_many(65537, 5);
    bool ran = false;
    auto call = [&] {
        ran = true;
        return 1;
    };
    EXPECT_EQ(pool_->run_as({.uid = 1, .gid = 1, .groups = too_many}, call).status().errno_value(), EINVAL);
    EXPECT_FALSE(ran);
    EXPECT_EQ(*pool_->run_as({.uid = 1, .gid = 1, .groups = {}}, [] { return thread_uid(); }), 1U);
}

TEST_F(IdentityTest, ManyCallersShareFewThreadsWithoutMixingIdentities) {
    std::vector<std::thread> callers;
    std::atomic<int> wrong{0};
    for (uid_t caller = 1; caller <= 12; ++caller) {
        callers.emplace_back([&, caller] {
            std::vector<gid_t> groups(caller, caller + 500);
            for (int round = 0; round < 2000; ++round) {
                Result<bool> right = pool_->run_as({.uid = caller, .gid = caller + 100, .groups = groups}, [&] {
                    return thread_uid() == caller && thread_gid() == caller + 100 &&
                           ::getgroups(0, nullptr) == static_cast<int>(caller);
                });
                if (!right.ok() || !*right) ++wrong;
            }
        });
    }
    for (std::thread& thread : callers) thread.join();
    EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace fabric::identity
