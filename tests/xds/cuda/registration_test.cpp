// How a card comes to reach accelerator memory: the order of what is tried, and every refusal. No card is there: the
// verbs are the test's own (card.h).
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/xds/cuda/card.h"
#include "tests/xds/cuda/fake_driver.h"
#include "xds/memory/cuda.h"
#include "xds/memory/sim.h"
#include "xds/transport/verbs/device_memory.h"

namespace fabric::xds {
namespace {

using transport::DeviceMemory;
using Way = DeviceMemory::Way;

constexpr size_t size = 1 << 20;

class Registration : public testing::Test {
  protected:
    void SetUp() override {
        card() = {};
        card().pretend = true;
    }
    void TearDown() override {
        EXPECT_EQ(card().live, 0u);
        for (const char* what : {"dma-buf", "export", "rdma"}) fake_cuda_refuses(what, false);
        memory::sim_configure({});
        for (void* address : sims_) EXPECT_TRUE(memory::sim_free(address).ok());
        for (unsigned long long address : cudas_) EXPECT_EQ(cuMemFree_v2(address), 0);
    }
    memory::Place sim(bool dmabuf, bool peer, int device = 0) {
        memory::SimSettings settings;
        settings.dmabuf = dmabuf;
        settings.peer_memory = peer;
        memory::sim_configure(settings);
        sims_.push_back(*memory::sim_allocate(size, device));
        return *memory::locate(sims_.back(), size);
    }
    memory::Place cuda(int device = 0) {
        FakeContext context = nullptr;
        unsigned long long address = 0;
        EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, device), 0);
        EXPECT_EQ(cuCtxSetCurrent(context), 0);
        EXPECT_EQ(cuMemAlloc_v2(&address, size), 0);
        cudas_.push_back(address);
        return *memory::locate(reinterpret_cast<void*>(address), size);
    }
    Way way(const memory::Place& place) {
        DeviceMemory::Verdict verdict = memory_.way(place);
        why_ = verdict.why;
        return verdict.way;
    }
    bool says(const std::string& words) const { return why_.find(words) != std::string::npos; }
    // Registers an odd range and lets go of it.
    int add(const memory::Place& place) {
        auto region = memory_.add(place, place.allocation.base + 12345, 54321, IBV_ACCESS_LOCAL_WRITE);
        if (region.ok()) ibv_dereg_mr(*region);
        return region.status().errno_value();
    }

    DeviceMemory memory_{nullptr, "card0"};
    std::string why_;
    std::vector<void*> sims_;
    std::vector<unsigned long long> cudas_;
};

TEST_F(Registration, DmaBufIsTriedFirst) {
    memory::Place place = cuda();
    EXPECT_EQ(way(place), Way::dmabuf) << why_;
    EXPECT_TRUE(says("by dma-buf")) << why_;
    EXPECT_FALSE(memory_.takes_windows(place));
    EXPECT_EQ(card().peers, 0u);
    unsigned before = card().dmabufs;
    EXPECT_EQ(add(place), 0);
    EXPECT_EQ(card().dmabufs, before + 1) << "the device was tried once";
    EXPECT_GT(fake_cuda_ordered(), 0u) << "copies of CUDA's are ordered with the card's";
}

TEST_F(Registration, PeerMemoryIsTriedNext) {
    memory::Place place = sim(true, true);
    card().no_dmabuf = EOPNOTSUPP;
    EXPECT_EQ(way(place), Way::peer) << why_;
    EXPECT_TRUE(says("peer memory")) << why_;
    EXPECT_TRUE(memory_.takes_windows(place));
    EXPECT_EQ(card().dmabufs, 0u);
    EXPECT_EQ(add(place), 0);
}

TEST_F(Registration, EachRefusalIsNamed) {
    fake_cuda_refuses("dma-buf", true);
    EXPECT_EQ(way(cuda(0)), Way::none);
    EXPECT_TRUE(says("exports no dma-bufs")) << why_;
    EXPECT_TRUE(says("nvidia_peermem is not loaded")) << why_;
    fake_cuda_refuses("dma-buf", false);
    fake_cuda_refuses("export", true);
    fake_cuda_refuses("rdma", true);
    memory::Place place = cuda(1);
    EXPECT_EQ(way(place), Way::none);
    EXPECT_TRUE(says("CUDA driver: FAKE_ERROR (801)")) << why_;
    EXPECT_TRUE(says("no GPUDirect RDMA")) << why_;
    EXPECT_EQ(add(place), ENOTSUP);
    card().no_dmabuf = EOPNOTSUPP;
    card().no_peer = EFAULT;
    EXPECT_EQ(way(sim(true, true)), Way::none);
    EXPECT_TRUE(says("dma-buf registration with RDMA device card0")) << why_;
    EXPECT_TRUE(says("Bad address")) << why_;
}

TEST_F(Registration, EachDeviceIsTriedByItself) {
    card().no_dmabuf = EOPNOTSUPP;
    EXPECT_EQ(way(sim(true, true, 0)), Way::peer);
    card().no_dmabuf = 0;
    EXPECT_EQ(way(sim(true, true, 0)), Way::peer) << "known";
    EXPECT_EQ(way(sim(true, true, 1)), Way::dmabuf);
}

TEST_F(Registration, WantOfMemoryIsNoVerdict) {
    memory::Place place = sim(true, false);
    card().no_dmabuf = ENOMEM;
    EXPECT_EQ(way(place), Way::none);
    card().no_dmabuf = 0;
    EXPECT_EQ(way(place), Way::dmabuf);
}

TEST_F(Registration, TheModuleForPeerMemoryIsFoundByAnyOfItsNames) {
    std::string pattern = testing::TempDir() + "sysfs.XXXXXX";
    const std::filesystem::path root = mkdtemp(pattern.data());
    for (const char* name : {"module/nvidia_peermem", "module/nv_peer_mem", "kernel/mm/memory_peers/nv_mem"}) {
        EXPECT_FALSE(memory::peer_memory_module(root)) << name;
        std::filesystem::create_directories(root / name);
        EXPECT_TRUE(memory::peer_memory_module(root)) << name;
        std::filesystem::remove_all(root / name);
    }
    std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace fabric::xds
