#include "common/fault.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

namespace fabric::fault {
namespace {

class Fault : public testing::Test {
  protected:
    void TearDown() override { ASSERT_TRUE(arm("").ok()); }
};

TEST_F(Fault, UnarmedPointsPass) {
    EXPECT_EQ(hit("nowhere"), 0);
    EXPECT_EQ(limit("nowhere", 4096), 4096u);
}

TEST_F(Fault, StrikesAfterNHitsAndCountTimes) {
    ASSERT_TRUE(arm("disk.write=ENOSPC@2*3").ok());
    int results[7];
    for (int& result : results) result = hit("disk.write");
    EXPECT_EQ(std::vector<int>(results, results + 7), (std::vector<int>{0, 0, ENOSPC, ENOSPC, ENOSPC, 0, 0}));
    EXPECT_EQ(struck("disk.write"), 3u);
    EXPECT_EQ(hit("disk.read"), 0);
}

TEST_F(Fault, ShortTransfersAreCutAndNotErrors) {
    ASSERT_TRUE(arm("disk.read=short:512*1").ok());
    EXPECT_EQ(hit("disk.read"), 0);
    EXPECT_EQ(limit("disk.read", 4096), 512u);
    EXPECT_EQ(limit("disk.read", 4096), 4096u);
}

TEST_F(Fault, ThatAnOperationEndsLateIsAQuestionOfItsOwn) {
    ASSERT_TRUE(arm("disk.read=hang:200*1").ok());
    EXPECT_EQ(hit("disk.read"), 0);
    EXPECT_EQ(hang("disk.read"), 200);
    EXPECT_EQ(hang("disk.read"), 0);
}

TEST_F(Fault, BadSpecsAreNamedAndChangeNothing) {
    ASSERT_TRUE(arm("a=EIO").ok());
    for (const char* bad : {"b", "=EIO", "b=EWHAT", "b=EIO@x", "b=EIO*", "b=short:", "b=delay:-1"}) {
        Status status = arm(bad);
        EXPECT_FALSE(status.ok()) << bad;
        EXPECT_NE(status.message().find(bad), std::string::npos) << status.message();
    }
    EXPECT_EQ(hit("a"), EIO);
}

TEST_F(Fault, FollowsAFileWhileTheProcessRuns) {
    std::string path = testing::TempDir() + "faults." + std::to_string(getpid());
    setenv("FABRIC_FAULT_FILE", path.c_str(), 1);
    ASSERT_TRUE(arm_from_environment().ok());
    std::ofstream(path) << "late=EDQUOT";
    auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (hit("late") != EDQUOT && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_EQ(hit("late"), EDQUOT);
    std::string armed;
    while (armed != "armed: late=EDQUOT" && std::chrono::steady_clock::now() < deadline)
        std::getline(std::ifstream(path + ".armed"), armed);
    EXPECT_EQ(armed, "armed: late=EDQUOT");
    unlink(path.c_str());
    unlink((path + ".armed").c_str());
}

}  // namespace
}  // namespace fabric::fault
