// The cuda kind and its streams against a fake driver (fake_driver.cpp), which has CUDA's rules and no GPU.
#include <fcntl.h>

#include <future>

#include "tests/xds/client/fixture.h"
#include "tests/xds/cuda/fake_driver.h"

namespace fabric::xds {
namespace {

constexpr size_t size = 3'000'000;

class Cuda : public WithTarget {
  protected:
    void SetUp() override {
        WithTarget::SetUp();
        ASSERT_EQ(cuDevicePrimaryCtxRetain(&contexts_[0], 0), 0);
        ASSERT_EQ(cuDevicePrimaryCtxRetain(&contexts_[1], 1), 0);
        ASSERT_EQ(cuCtxSetCurrent(contexts_[0]), 0);
        bytes_ = random_bytes(size, 1);
        put(file("f"), bytes_);
    }
    void TearDown() override {
        fake_cuda_no_wait_value(false);
        fake_cuda_capturing(false);
        for (unsigned long long memory : allocated_) EXPECT_EQ(cuMemFree_v2(memory), 0);
        WithTarget::TearDown();
    }
    // Of device `device`, while the current one stays what it is.
    char* allocate(int device) {
        FakeContext before = nullptr;
        unsigned long long address = 0;
        EXPECT_EQ(cuCtxGetCurrent(&before), 0);
        EXPECT_EQ(cuCtxSetCurrent(contexts_[device]), 0);
        EXPECT_EQ(cuMemAlloc_v2(&address, size), 0);
        EXPECT_EQ(cuCtxSetCurrent(before), 0);
        allocated_.push_back(address);
        return reinterpret_cast<char*>(address);
    }
    void in_stream(FakeStream native);

    FakeContext contexts_[2] = {};
    std::string bytes_;
    std::vector<unsigned long long> allocated_;
};

unsigned long long device(const char* address) { return reinterpret_cast<unsigned long long>(address); }

TEST_F(Cuda, TheDeviceIsTheMemorysOwnWhateverIsCurrent) {
    char* memory = allocate(1);
    xds_file *f = open("f"), *w = open("w", O_RDWR | O_CREAT);
    char line[256];
    ASSERT_GT(xds_explain(f, memory, size, line, sizeof line), 0);
    EXPECT_EQ(std::string(line).find("staged: cuda memory"), 0u) << line;
    ASSERT_EQ(xds_pread(f, memory, size, 0), static_cast<ssize_t>(size)) << xds_error();
    ASSERT_EQ(xds_pwrite(w, memory, size, 7), static_cast<ssize_t>(size)) << xds_error();
    EXPECT_TRUE(contents(file("w")) == std::string(7, '\0') + bytes_);
    FakeContext now = nullptr;
    EXPECT_EQ(cuCtxGetCurrent(&now), 0);
    EXPECT_EQ(now, contexts_[0]);
    EXPECT_EQ(xds_pread(f, memory, (4 << 20), 0), -EFAULT) << "longer than the allocation";
    xds_close(f);
    xds_close(w);
}

TEST_F(Cuda, DataIsCheckedWhereItLies) {
    xds_options options{};
    options.verify = 1;
    xds_ctx* checking = open_context(options);
    xds_file* f = nullptr;
    ASSERT_EQ(xds_open(checking, "f", O_RDONLY, 0, &f), 0);
    unsigned before = fake_cuda_kernels();
    ASSERT_EQ(xds_pread(f, allocate(1), size, 0), static_cast<ssize_t>(size)) << xds_error();
#ifdef HAVE_CUDA_KERNEL
    EXPECT_GT(fake_cuda_kernels(), before) << "by a copy to host memory";
#else
    EXPECT_EQ(fake_cuda_kernels(), before) << "built without nvcc";
#endif
    xds_stats stats{};
    stats.size = sizeof stats;
    ASSERT_EQ(xds_stats_get(checking, &stats), 0);
    EXPECT_EQ(stats.verified_bytes, size);
    EXPECT_EQ(xds_ctx_close(checking), 0);
}

// The driver copies pageable memory through its own, and not beside the processor.
TEST_F(Cuda, StagingMemoryIsPinnedAndGivenBack) {
    size_t before = fake_cuda_pinned();
    unsigned pageable = fake_cuda_pageable_copies(), pinned = fake_cuda_pinned_copies();
    xds_ctx* other = open_context();
    xds_file* f = nullptr;
    char* memory = allocate(1);
    ASSERT_EQ(xds_open(other, "f", O_RDWR, 0, &f), 0);
    ASSERT_EQ(xds_pread(f, memory, size, 0), static_cast<ssize_t>(size)) << xds_error();
    ASSERT_EQ(xds_pwrite(f, memory, size, 0), static_cast<ssize_t>(size)) << xds_error();
    EXPECT_GT(fake_cuda_pinned(), before);
    EXPECT_GE(fake_cuda_pinned_copies(), pinned + 2);
    EXPECT_EQ(fake_cuda_pageable_copies(), pageable);
    EXPECT_EQ(xds_close(f), 0);
    EXPECT_EQ(xds_ctx_close(other), 0);
    EXPECT_EQ(fake_cuda_pinned(), before);
}

// The program's copy, a write, a read, the program's copy: it waits for the stream alone, as a CUDA program does.
void Cuda::in_stream(FakeStream native) {
    xds_stream* stream = nullptr;
    ASSERT_EQ(xds_stream_open("cuda", native, &stream), 0) << xds_error();
    xds_file* f = open("s", O_RDWR | O_CREAT | O_TRUNC);
    char *first = allocate(0), *second = allocate(0);
    std::string back(size, '#');
    size_t length = size;
    off_t none = 0;
    ssize_t written = 0, read = 0;
    ASSERT_EQ(cuMemcpyHtoDAsync_v2(device(first), bytes_.data(), size, native), 0);
    ASSERT_EQ(xds_write_stream(f, first, &length, &none, &none, &written, stream), 0) << xds_error();
    ASSERT_EQ(xds_read_stream(f, second, &length, &none, &none, &read, stream), 0) << xds_error();
    ASSERT_EQ(cuMemcpyDtoHAsync_v2(back.data(), device(second), size, native), 0);
    ASSERT_EQ(cuStreamSynchronize(native), 0);
    EXPECT_EQ(written, static_cast<ssize_t>(size));
    EXPECT_EQ(read, static_cast<ssize_t>(size));
    EXPECT_TRUE(back == bytes_);
    EXPECT_TRUE(contents(file("s")) == bytes_);
    EXPECT_EQ(xds_stream_close(stream), 0) << xds_error();
    xds_close(f);
}

TEST_F(Cuda, RequestsAndTheProgramsWorkKeepTheStreamsOrder) {
    for (unsigned non_blocking : {0u, 1u}) {
        FakeStream native = nullptr;
        ASSERT_EQ(cuStreamCreate(&native, non_blocking), 0);
        in_stream(native);
        EXPECT_EQ(cuStreamDestroy_v2(native), 0);
    }
    in_stream(nullptr);
}

TEST_F(Cuda, WhereStreamsCannotWaitForMemoryTheCallerDoes) {
    fake_cuda_no_wait_value(true);
    FakeStream native = nullptr;
    ASSERT_EQ(cuStreamCreate(&native, 0), 0);
    in_stream(native);
    EXPECT_EQ(cuStreamDestroy_v2(native), 0);
}

TEST_F(Cuda, AGraphBeingRecordedIsRefused) {
    FakeStream native = nullptr;
    ASSERT_EQ(cuStreamCreate(&native, 0), 0);
    xds_stream* stream = nullptr;
    ASSERT_EQ(xds_stream_open("cuda", native, &stream), 0);
    fake_cuda_capturing(true);
    EXPECT_EQ(xds_stream_call(
                  stream, [](void*) {}, nullptr),
              -ENOTSUP);
    EXPECT_EQ(xds_stream_close(stream), 0);
    EXPECT_EQ(cuStreamDestroy_v2(native), 0);
}

TEST_F(Cuda, ClosingWaitsForTheProgramsWorkToo) {
    FakeStream native = nullptr;
    ASSERT_EQ(cuStreamCreate(&native, 0), 0);
    xds_stream* stream = nullptr;
    ASSERT_EQ(xds_stream_open("cuda", native, &stream), 0);
    xds_file* f = open("f");
    char* memory = allocate(0);
    std::promise<void> gate;
    auto hold = [](void* it) { static_cast<std::promise<void>*>(it)->get_future().get(); };
    ASSERT_EQ(cuLaunchHostFunc(native, hold, &gate), 0);
    size_t length = size;
    off_t none = 0;
    ssize_t read = -7;
    ASSERT_EQ(xds_read_stream(f, memory, &length, &none, &none, &read, stream), 0) << xds_error();
    std::future<int> closed = std::async(std::launch::async, [&] { return xds_stream_close(stream); });
    EXPECT_EQ(closed.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
    EXPECT_EQ(read, -7);
    gate.set_value();
    EXPECT_EQ(closed.get(), 0);
    EXPECT_EQ(read, static_cast<ssize_t>(size));
    EXPECT_EQ(xds_stream_sync(stream), -EBADF);
    EXPECT_EQ(cuStreamDestroy_v2(native), 0);
    xds_close(f);
}

}  // namespace
}  // namespace fabric::xds
