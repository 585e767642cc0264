#include "xds/memory/sim.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>

#include "common/crc32c.h"

namespace fabric::xds::memory {
namespace {

struct Sim : testing::Test {
    void TearDown() override { sim_configure({}); }
};

TEST_F(Sim, BytesGoInAndOutByTheKindOnly) {
    void* memory = *sim_allocate(10000);
    std::string data(9000, 'd'), back(9000, ' ');
    uint64_t before = sim_copied_bytes();
    ASSERT_TRUE(sim().copy_in(static_cast<char*>(memory) + 777, data.data(), data.size()).ok());
    ASSERT_TRUE(sim().copy_out(back.data(), static_cast<char*>(memory) + 777, back.size()).ok());
    EXPECT_EQ(back, data);
    EXPECT_EQ(sim_copied_bytes() - before, 18000u);
    EXPECT_EQ(*sim().crc32c(0, static_cast<char*>(memory) + 777, 9000), crc32c(data.data(), data.size()));
    ASSERT_TRUE(sim_free(memory).ok());
}

TEST_F(Sim, TheProcessorFaults) {
    auto* memory = static_cast<volatile char*>(*sim_allocate(4096));
    EXPECT_DEATH({ (void)memory[0]; }, "");
    EXPECT_DEATH({ memory[0] = 1; }, "");
    ASSERT_TRUE(sim_free(const_cast<char*>(memory)).ok());
}

TEST_F(Sim, SystemCallsEndWithEfault) {
    void* memory = *sim_allocate(4096);
    int pair[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    EXPECT_EQ(send(pair[0], memory, 10, 0), -1);
    EXPECT_EQ(errno, EFAULT);
    ASSERT_EQ(send(pair[0], "0123456789", 10, 0), 10);
    EXPECT_EQ(recv(pair[1], memory, 10, 0), -1);
    EXPECT_EQ(errno, EFAULT);
    close(pair[0]);
    close(pair[1]);
    ASSERT_TRUE(sim_free(memory).ok());
}

TEST_F(Sim, RangesOutsideAreRefused) {
    auto* memory = static_cast<char*>(*sim_allocate(4096));
    char byte = 0;
    EXPECT_EQ(sim().copy_in(memory + 4096, &byte, 1).errno_value(), EFAULT);
    EXPECT_EQ(sim().copy_out(&byte, memory + 4095, 2).errno_value(), EFAULT);
    EXPECT_EQ(locate(memory + 1, 4096).status().errno_value(), EFAULT);
    EXPECT_TRUE(locate(memory + 1, 4095).ok());
    ASSERT_TRUE(sim_free(memory).ok());
    EXPECT_EQ(sim().copy_in(memory, &byte, 1).errno_value(), EFAULT);
    EXPECT_FALSE(sim_free(memory).ok());
}

TEST_F(Sim, AddressesAreLocatedByKindAndIdsAreNotReused) {
    void* first = *sim_allocate(4096, 1);
    Place place = *locate(first, 10);
    EXPECT_EQ(place.kind, &sim());
    EXPECT_EQ(place.allocation.device, 1);
    ASSERT_TRUE(sim_free(first).ok());
    void* second = *sim_allocate(4096, 1);
    EXPECT_NE(locate(second, 10)->allocation.id, place.allocation.id);
    int local = 0;
    EXPECT_EQ(locate(&local, sizeof local)->kind->name(), "host");
    EXPECT_EQ(locate(nullptr, 1).status().errno_value(), EFAULT);
    ASSERT_TRUE(sim_free(second).ok());
}

TEST_F(Sim, CopiesTakeAtLeastTheTimeThatWasSet) {
    SimSettings settings;
    settings.copy_bytes_per_second = 1 << 20;
    sim_configure(settings);
    void* memory = *sim_allocate(1 << 17);
    std::string data(1 << 17, 'x');
    auto start = std::chrono::steady_clock::now();
    ASSERT_TRUE(sim().copy_in(memory, data.data(), data.size()).ok());
    EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(125));
    ASSERT_TRUE(sim_free(memory).ok());
}

TEST_F(Sim, DmabufIsTheSameMemory) {
    void* memory = *sim_allocate(8192);
    EXPECT_EQ(sim().export_dmabuf(memory, 4096).status().errno_value(), ENOTSUP);
    ASSERT_TRUE(sim_free(memory).ok());
    SimSettings settings;
    settings.dmabuf = true;
    sim_configure(settings);
    memory = *sim_allocate(8192);
    auto exported = sim().export_dmabuf(static_cast<char*>(memory) + 100, 4);
    ASSERT_TRUE(exported.ok());
    ASSERT_EQ(pwrite(exported->fd.get(), "data", 4, static_cast<off_t>(exported->offset)), 4);
    char back[4];
    ASSERT_TRUE(sim().copy_out(back, static_cast<char*>(memory) + 100, 4).ok());
    EXPECT_EQ(std::string(back, 4), "data");
    ASSERT_TRUE(sim_free(memory).ok());
}

TEST(Kinds, HostIsLastAndCopies) {
    EXPECT_EQ(kinds().back()->name(), "host");
    char to[4];
    ASSERT_TRUE(kinds().back()->copy_in(to, "abcd", 4).ok());
    EXPECT_EQ(std::string(to, 4), "abcd");
}

}  // namespace
}  // namespace fabric::xds::memory
