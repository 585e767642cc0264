// Accelerator memory that a card reaches: over soft-RoCE, with registrations that the test's verbs make (card.h), so
// that the target's RDMA goes into and out of the memory itself. In the VM alone, see ../in_vm.
#include "tests/xds/cuda/card.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>

#include "tests/xds/client/fixture.h"
#include "tests/xds/cuda/fake_driver.h"
#include "tests/xds/transport/place.h"
#include "xds/client/pace.h"
#include "xds/memory/sim.h"

namespace fabric::xds {
namespace {

constexpr size_t size = 4 << 20;

class Direct : public WithTarget {
  protected:
    void SetUp() override {
        card() = {};
        WithTarget::SetUp();
        bytes_ = random_bytes(size, 1);
        put(file("f"), bytes_);
    }
    void TearDown() override {
        for (void* address : sims_) EXPECT_TRUE(memory::sim_free(address).ok());
        memory::sim_configure({});
        WithTarget::TearDown();
        EXPECT_EQ(card().live, 0u);
    }
    char* allocate(const memory::SimSettings& settings, int device) {
        memory::sim_configure(settings);
        sims_.push_back(*memory::sim_allocate(size, device));
        return static_cast<char*>(sims_.back());
    }
    static memory::SimSettings dmabuf() {
        memory::SimSettings settings;
        settings.dmabuf = true;
        return settings;
    }
    std::string explain(xds_file* f, const void* memory) {
        char line[512];
        EXPECT_GT(xds_explain(f, memory, size, line, sizeof line), 0);
        return line;
    }
    xds_completion transfer(xds_ctx* ctx, uint32_t op, xds_file* f, void* memory, size_t length, uint64_t offset) {
        xds_queue* queue = nullptr;
        EXPECT_EQ(xds_queue_create(ctx, 1, &queue), 0);
        xds_io io{sizeof io, op, f, memory, length, offset, 0};
        EXPECT_EQ(xds_queue_submit(queue, &io, 1), 1);
        xds_completion done{};
        done.size = sizeof done;
        EXPECT_EQ(xds_queue_wait(queue, &done, 1, 1, -1), 1);
        EXPECT_EQ(xds_queue_destroy(queue), 0);
        return done;
    }
    // Reads into and writes out of sim memory, with the ends of both beside a page's, and no copy of ours.
    void both_ways(xds_ctx* ctx, char* memory) {
        xds_file *f = nullptr, *w = nullptr;
        ASSERT_EQ(xds_open(ctx, "f", O_RDONLY, 0, &f), 0);
        ASSERT_EQ(xds_open(ctx, "w", O_RDWR | O_CREAT | O_TRUNC, 0600, &w), 0);
        uint64_t copied = memory::sim_copied_bytes();
        xds_completion in = transfer(ctx, XDS_READ, f, memory + 4095, size - 4097, 4097);
        EXPECT_EQ(in.result, static_cast<int64_t>(size - 4097)) << in.reason;
        EXPECT_EQ(in.direct_bytes, size - 4097) << in.reason;
        xds_completion out = transfer(ctx, XDS_WRITE, w, memory + 4095, size - 4097, 1);
        EXPECT_EQ(out.direct_bytes, size - 4097) << out.reason;
        EXPECT_EQ(memory::sim_copied_bytes(), copied);
        EXPECT_TRUE(contents(file("w")) == '\0' + bytes_.substr(4097));
        std::string back(size - 4097, '#');
        ASSERT_EQ(xds_sim_copy_out(back.data(), memory + 4095, back.size()), 0);
        EXPECT_TRUE(back == bytes_.substr(4097));
        xds_close(f);
        xds_close(w);
    }

    std::string bytes_;
    std::vector<void*> sims_;
};

TEST_F(Direct, ByDmaBuf) {
    char* memory = allocate(dmabuf(), 0);
    xds_file* f = open("f");
    EXPECT_EQ(explain(f, memory).find("direct: sim memory; the card reaches sim memory by dma-buf"), 0u)
        << explain(f, memory);
    both_ways(ctx_, memory);
    EXPECT_GT(card().dmabufs, 0u);
    EXPECT_EQ(card().live, 0u) << "no key outlives its request";
    xds_close(f);
    xds_options options{};
    options.mode = XDS_MODE_DIRECT_ONLY;
    xds_ctx* strict = open_context(options);
    both_ways(strict, memory);
    EXPECT_EQ(xds_ctx_close(strict), 0);
}

// Kept registered, and lent by windows of one request each.
TEST_F(Direct, ByItsAddress) {
    memory::SimSettings settings = dmabuf();
    settings.peer_memory = true;
    card().no_dmabuf = EOPNOTSUPP;
    char* memory = allocate(settings, 0);
    both_ways(ctx_, memory);
    EXPECT_GT(card().peers, 0u);
    unsigned before = card().peers;
    both_ways(ctx_, memory);
    EXPECT_EQ(card().peers, before) << "registered once";
}

TEST_F(Direct, ABufferLargerThanTheApertureGoesInWindows) {
    for (bool peer : {false, true}) {
        memory::SimSettings settings = dmabuf();
        settings.peer_memory = peer;
        settings.aperture = 256 << 10;
        card().no_dmabuf = peer ? EOPNOTSUPP : 0;
        char* memory = allocate(settings, peer ? 3 : 2);
        card().most_bytes = 0;
        both_ways(ctx_, memory);
        EXPECT_GT(card().most_bytes, 0u);
        EXPECT_LE(card().most_bytes, 256u << 10);
    }
}

TEST_F(Direct, ARefusalIsExplainedAndGoesThroughHostMemory) {
    card().no_dmabuf = EOPNOTSUPP;
    char* memory = allocate(dmabuf(), 0);
    xds_file* f = open("f");
    std::string why = explain(f, memory);
    EXPECT_EQ(why.find("staged: sim memory; the RDMA card does not reach sim memory; dma-buf: dma-buf registration"),
              0u)
        << why;
    EXPECT_NE(why.find("peer memory: sim: peer memory is switched off"), std::string::npos) << why;
    xds_completion done = transfer(ctx_, XDS_READ, f, memory, size, 0);
    EXPECT_EQ(done.result, static_cast<int64_t>(size)) << done.reason;
    EXPECT_EQ(done.staged_bytes, size);
    xds_close(f);
    xds_options options{};
    options.mode = XDS_MODE_DIRECT_ONLY;
    xds_ctx* strict = open_context(options);
    ASSERT_EQ(xds_open(strict, "f", O_RDONLY, 0, &f), 0);
    EXPECT_EQ(xds_pread(f, memory, size, 0), -ENOTSUP);
    EXPECT_NE(std::string(xds_error()).find("the RDMA card does not reach sim memory"), std::string::npos)
        << xds_error();
    EXPECT_EQ(xds_ctx_close(strict), 0);
}

// The slow way is made slower than anything that the machine does.
TEST_F(Direct, AutoTakesTheFasterWay) {
    constexpr uint64_t slow = 2 << 20;  // bytes a second
    constexpr size_t length = 256 << 10;
    struct Case {
        uint64_t copies, remote;
        xds_path faster;
    };
    int device = 4;
    for (const Case& one : {Case{0, slow, XDS_PATH_STAGED}, Case{slow, 0, XDS_PATH_DIRECT}}) {
        memory::SimSettings settings = dmabuf();
        settings.copy_bytes_per_second = one.copies;
        settings.remote_bytes_per_second = one.remote;
        char* memory = allocate(settings, device++);
        xds_file* f = open("f");
        for (unsigned i = 0; i < 2 * client::Pace::first_samples; ++i) {
            xds_completion done = transfer(ctx_, XDS_READ, f, memory, length, 0);
            ASSERT_EQ(done.result, static_cast<int64_t>(length)) << done.reason;
            EXPECT_EQ(done.path, i < client::Pace::first_samples ? XDS_PATH_DIRECT : XDS_PATH_STAGED) << done.reason;
        }
        xds_completion done = transfer(ctx_, XDS_READ, f, memory, length, 0);
        EXPECT_EQ(done.path, one.faster) << done.reason;
        if (one.faster == XDS_PATH_STAGED) {
            EXPECT_NE(std::string(done.reason).find("measured to be faster"), std::string::npos) << done.reason;
        }
        xds_close(f);
    }
}

// A dma-buf of another driver's, which stands here in a memory file.
TEST_F(Direct, ADmaBufThatAProgramHas) {
    UniqueFd fd(memfd_create("exported", MFD_CLOEXEC));
    ASSERT_EQ(ftruncate(fd.get(), size + 8192), 0);
    xds_buf* buf = nullptr;
    ASSERT_EQ(xds_buf_register_dmabuf(ctx_, fd.get(), 5000, size, &buf), 0) << xds_error();
    auto* address = static_cast<char*>(xds_buf_address(buf));
    xds_file* f = open("f");
    xds_completion done = transfer(ctx_, XDS_READ, f, address, size, 0);
    EXPECT_EQ(done.direct_bytes, size) << done.reason;
    std::string back(size, '#');
    ASSERT_EQ(pread(fd.get(), back.data(), size, 5000), static_cast<ssize_t>(size));
    EXPECT_TRUE(back == bytes_);
    EXPECT_EQ(xds_buf_deregister(buf), 0);
    xds_close(f);
}

// The CUDA kind, on the other device than the current one.
TEST_F(Direct, CudaMemoryOfTheDeviceThatIsNotCurrent) {
    FakeContext contexts[2] = {};
    unsigned long long address = 0;
    for (int device : {0, 1}) ASSERT_EQ(cuDevicePrimaryCtxRetain(&contexts[device], device), 0);
    ASSERT_EQ(cuCtxSetCurrent(contexts[1]), 0);
    ASSERT_EQ(cuMemAlloc_v2(&address, size), 0);
    ASSERT_EQ(cuCtxSetCurrent(contexts[0]), 0);
    auto* memory = reinterpret_cast<char*>(address);
    xds_file *f = open("f"), *w = open("w", O_RDWR | O_CREAT);
    EXPECT_EQ(explain(f, memory).find("direct: cuda memory; the card reaches cuda memory by dma-buf"), 0u)
        << explain(f, memory);
    unsigned flushes = fake_cuda_flushes();
    unsigned copies = fake_cuda_pinned_copies() + fake_cuda_pageable_copies();
    xds_completion done = transfer(ctx_, XDS_READ, f, memory, size, 0);
    EXPECT_EQ(done.direct_bytes, size) << done.reason;
    EXPECT_GT(fake_cuda_flushes(), flushes) << "what the card wrote is made visible to the device";
    EXPECT_EQ(transfer(ctx_, XDS_WRITE, w, memory, size, 0).direct_bytes, size);
    EXPECT_EQ(fake_cuda_pinned_copies() + fake_cuda_pageable_copies(), copies);
    EXPECT_TRUE(contents(file("w")) == bytes_);
    FakeContext now = nullptr;
    EXPECT_EQ(cuCtxGetCurrent(&now), 0);
    EXPECT_EQ(now, contexts[0]);
    xds_close(f);
    xds_close(w);
    EXPECT_EQ(xds_ctx_close(ctx_), 0);
    ctx_ = nullptr;
    EXPECT_EQ(cuMemFree_v2(address), 0);
}

}  // namespace
}  // namespace fabric::xds

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    if (!fabric::xds::transport::over_rdma()) {
        std::printf("SKIP: accelerator memory over RDMA: XDS_TEST_RDMA does not name the address of an RDMA device\n");
        return 77;
    }
    return RUN_ALL_TESTS();
}
