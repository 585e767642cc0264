// In steady state a request allocates nothing from the heap, in any thread of this process. The target is another
// process.
#include <fcntl.h>

#include <atomic>
#include <new>

#include "tests/xds/client/daemon.h"
#include "tests/xds/client/fixture.h"

namespace {
std::atomic<bool> counting{false};
std::atomic<long> allocations{0};
}  // namespace

// Takes the place of the C library's for this program and every library in it.
extern "C" void* __libc_malloc(size_t);
extern "C" __attribute__((noinline)) void* malloc(size_t size) {
    if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1, std::memory_order_relaxed);
    return __libc_malloc(size);
}

namespace fabric::xds {
namespace {

TEST(Allocation, TheCounterCounts) {
    counting = true;
    void* volatile memory = std::malloc(10);
    counting = false;
    std::free(memory);
    EXPECT_EQ(allocations.exchange(0), 1);
}

TEST(Allocation, ReadsWritesAndQueuesAllocateNothing) {
    TemporaryFolder folder;
    std::string bytes = random_bytes(8 << 20, 1);
    put(folder.path() + "/f", bytes);
    Daemon daemon(folder.path());
    xds_options options{};
    options.size = sizeof options;
    std::string address = daemon.address();
    options.address = address.c_str();
    xds_ctx* ctx = nullptr;
    ASSERT_EQ(xds_ctx_open(&options, &ctx), 0) << xds_error();
    xds_file* f = nullptr;
    ASSERT_EQ(xds_open(ctx, "f", O_RDWR, 0, &f), 0) << xds_error();
    xds_queue* queue = nullptr;
    ASSERT_EQ(xds_queue_create(ctx, 16, &queue), 0);
    std::vector<char> host(8 << 20);
    Memory sim(true, 8 << 20);
    // Else RDMA registers it for each request, which the verbs library allocates for.
    xds_buf* registered = nullptr;
    ASSERT_EQ(xds_buf_register(ctx, host.data(), host.size(), &registered), 0) << xds_error();
    xds_stream* stream = nullptr;
    ASSERT_EQ(xds_stream_open("host", nullptr, &stream), 0) << xds_error();
    std::vector<xds_completion> completions(16);
    for (auto& one : completions) one.size = sizeof one;
    auto round = [&] {
        for (char* memory : {host.data(), sim.data()}) {
            ASSERT_EQ(xds_pread(f, memory, 4096, 0), 4096);
            ASSERT_EQ(xds_pread(f, memory, 8 << 20, 0), 8 << 20);
            ASSERT_EQ(xds_pwrite(f, memory, 8 << 20, 0), 8 << 20);
            for (unsigned i = 0; i < 16; ++i) {
                xds_io io{sizeof(xds_io), XDS_READ, f, memory + i * (512 << 10), 512 << 10, i * uint64_t{512 << 10}, i};
                ASSERT_EQ(xds_queue_submit(queue, &io, 1), 1);
            }
            ASSERT_EQ(xds_queue_wait(queue, completions.data(), 16, 16, -1), 16);
            size_t length = 1 << 20;
            off_t at = 4096;
            ssize_t results[4];
            // All are in the stream at once, in each round: how many requests it keeps is the same from the first on.
            std::atomic<bool> held{true};
            ASSERT_EQ(xds_stream_call(
                          stream, [](void* it) { static_cast<std::atomic<bool>*>(it)->wait(true); }, &held),
                      0);
            for (ssize_t& result : results)
                ASSERT_EQ(xds_read_stream(f, memory, &length, &at, &at, &result, stream), 0);
            held = false;
            held.notify_all();
            ASSERT_EQ(xds_stream_sync(stream), 0);
            ASSERT_EQ(results[3], 1 << 20);
        }
    };
    for (int i = 0; i < 5; ++i) round();
    counting = true;
    for (int i = 0; i < 5; ++i) round();
    counting = false;
    EXPECT_EQ(allocations, 0) << "for 230 requests";
    EXPECT_EQ(xds_stream_close(stream), 0);
    EXPECT_EQ(xds_queue_destroy(queue), 0);
    EXPECT_EQ(xds_ctx_close(ctx), 0);
}

}  // namespace
}  // namespace fabric::xds
