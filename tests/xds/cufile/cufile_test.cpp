// A cuFile program with our library, unchanged: over XDS, and, with nobody to talk to, on files of this machine.
#include <cstdlib>

#include "tests/xds/client/daemon.h"
#include "tests/xds/client/fixture.h"

namespace fabric::xds {
namespace {

struct Outcome {
    int status;
    std::string output;
};

Outcome run(const std::string& environment, const std::string& folder, const std::string& memory) {
    std::string command = environment + " timeout 120 " PROGRAM " " + folder + " " + memory + " 2>&1";
    FILE* pipe = popen(command.c_str(), "r");
    std::string output;
    char part[4096];
    while (size_t got = fread(part, 1, sizeof part, pipe)) output.append(part, got);
    return {pclose(pipe), output};
}

class CuFile : public testing::TestWithParam<const char*> {
  protected:
    TemporaryFolder folder_;
};
class CuFileReal : public testing::Test {
  protected:
    TemporaryFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(All, CuFile, testing::Values("host", "sim"), [](const auto& one) { return one.param; });

TEST_P(CuFile, OverXds) {
    Daemon daemon(folder_.path());
    Outcome outcome = run("XDS_VERIFY=1 XDS_ADDRESS=" + daemon.address() + " XDS_MOUNT=" + folder_.path(),
                          folder_.path(), GetParam());
    EXPECT_EQ(outcome.status, 0) << outcome.output;
}

// The same with a target whose disk fails once: if the program does not see that, its files did not go by XDS.
TEST_P(CuFile, OverXdsTheTargetsDiskIsTheOneThatCounts) {
    setenv("FABRIC_FAULTS", "backing.read=EIO*1", 1);
    Daemon daemon(folder_.path());
    unsetenv("FABRIC_FAULTS");
    Outcome outcome =
        run("XDS_ADDRESS=" + daemon.address() + " XDS_MOUNT=" + folder_.path(), folder_.path(), GetParam());
    EXPECT_NE(outcome.status, 0);
    EXPECT_NE(outcome.output.find("Input/output error"), std::string::npos) << outcome.output;
}

// A program with a GPU: its memory and its streams are those of a fake driver, or, where XDS_TEST_GPU is set, of the
// machine's own.
TEST_F(CuFileReal, MemoryAndStreamsOfCuda) {
    std::string driver = std::getenv("XDS_TEST_GPU") != nullptr ? "" : "LD_LIBRARY_PATH=" FAKE_CUDA " ";
    Outcome alone = run(driver, folder_.path(), "cuda");
    EXPECT_EQ(alone.status, 0) << alone.output;
    Daemon daemon(folder_.path());
    Outcome outcome = run(driver + "XDS_VERIFY=1 XDS_ADDRESS=" + daemon.address() + " XDS_MOUNT=" + folder_.path(),
                          folder_.path(), "cuda");
    EXPECT_EQ(outcome.status, 0) << outcome.output;
}

// Files that are not the gateway's go to NVIDIA's library where it is, those that are do not.
TEST_F(CuFileReal, TheRealLibraryGetsTheOtherFiles) {
    const std::string real = "XDS_CUFILE_REAL=" FAKE;
    Outcome other = run(real, folder_.path(), "host");
    EXPECT_EQ(other.status, 0) << other.output;
    EXPECT_NE(other.output.find("real library: reads="), std::string::npos) << other.output;
    EXPECT_EQ(other.output.find("real library: reads=0 "), std::string::npos) << other.output;
    Daemon daemon(folder_.path());
    Outcome gateways =
        run(real + " XDS_ADDRESS=" + daemon.address() + " XDS_MOUNT=" + folder_.path(), folder_.path(), "host");
    EXPECT_EQ(gateways.status, 0) << gateways.output;
    EXPECT_NE(gateways.output.find("real library: reads=0 writes=0"), std::string::npos) << gateways.output;
}

TEST_P(CuFile, OnFilesOfThisMachine) {
    Outcome outcome = run("", folder_.path(), GetParam());
    EXPECT_EQ(outcome.status, 0) << outcome.output;
}

// Nobody answers: the files are used as this machine shows them.
TEST_P(CuFile, WithoutATarget) {
    Outcome outcome = run("XDS_ADDRESS=127.0.0.1:1 XDS_MOUNT=" + folder_.path(), folder_.path(), GetParam());
    EXPECT_EQ(outcome.status, 0) << outcome.output;
}

}  // namespace
}  // namespace fabric::xds
