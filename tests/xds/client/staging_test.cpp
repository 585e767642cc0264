// Copies through staging memory go on beside everything else: shown by holding them at their start.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <thread>

#include "tests/xds/client/fixture.h"
#include "xds/memory/sim.h"

namespace fabric::xds {
namespace {

constexpr size_t size = 8 << 20;

class Staged : public WithTarget {
  protected:
    void SetUp() override {
        WithTarget::SetUp();
        bytes_ = random_bytes(size, 1);
        put(file("f"), bytes_);
        ASSERT_EQ(xds_queue_create(ctx_, 4, &queue_), 0);
    }
    void TearDown() override {
        memory::sim_hold_copies(false);
        EXPECT_EQ(xds_queue_destroy(queue_), 0);
        WithTarget::TearDown();
        EXPECT_EQ(memory::sim_pinned(), 0u);
    }
    void submit(uint32_t op, xds_file* f, void* buffer, uint64_t cookie = 0) {
        xds_io io{sizeof io, op, f, buffer, size, 0, cookie};
        ASSERT_EQ(xds_queue_submit(queue_, &io, 1), 1) << xds_error();
    }
    xds_completion completion(int timeout_ms = -1) {
        xds_completion done{};
        done.size = sizeof done;
        done.result = xds_queue_wait(queue_, &done, 1, 1, timeout_ms) == 1 ? done.result : INT64_MIN;
        return done;
    }
    static bool becomes(const std::function<bool()>& condition) {
        for (auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30); !condition();) {
            if (std::chrono::steady_clock::now() > end) return false;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return true;
    }
    // A request of its own, for memory of the host.
    void others_go_on() {
        std::string back(100'000, '#');
        xds_file* f = open("f");
        EXPECT_EQ(xds_pread(f, back.data(), back.size(), 5), static_cast<ssize_t>(back.size())) << xds_error();
        EXPECT_TRUE(back == bytes_.substr(5, back.size()));
        EXPECT_EQ(xds_close(f), 0);
    }

    std::string bytes_;
    xds_queue* queue_ = nullptr;
};

TEST_F(Staged, WhileOnePieceIsCopiedInTheOthersArrive) {
    Memory sim(true, size);
    xds_file* f = open("f");
    uint64_t copied = memory::sim_copied_bytes();
    memory::sim_hold_copies(true);
    submit(XDS_READ, f, sim.data());
    ASSERT_TRUE(becomes([] { return memory::sim_held_copies() == 1; }));
    // All that was asked has left the target, before one byte was copied.
    EXPECT_TRUE(becomes([&] {
        xds_stats stats{};
        stats.size = sizeof stats;
        EXPECT_EQ(xds_stats_get(ctx_, &stats), 0);
        return stats.messages >= size >> 20 && target_->bytes_in_flight() == 0;
    }));
    others_go_on();
    EXPECT_EQ(memory::sim_copied_bytes(), copied);
    EXPECT_EQ(completion(0).result, INT64_MIN) << "not over";
    memory::sim_hold_copies(false);
    xds_completion done = completion();
    EXPECT_EQ(done.result, static_cast<int64_t>(size)) << done.reason;
    EXPECT_EQ(done.staged_bytes, size);
    EXPECT_TRUE(sim.read(0, size) == bytes_);
    EXPECT_GT(memory::sim_pinned(), 0u);
    xds_close(f);
}

TEST_F(Staged, WhileOnePieceIsCopiedOutOthersGoOn) {
    Memory sim(true, size);
    sim.fill(bytes_);
    xds_file* f = open("w", O_RDWR | O_CREAT);
    memory::sim_hold_copies(true);
    submit(XDS_WRITE, f, sim.data());
    ASSERT_TRUE(becomes([] { return memory::sim_held_copies() == 1; }));
    others_go_on();
    memory::sim_hold_copies(false);
    EXPECT_EQ(completion().result, static_cast<int64_t>(size));
    EXPECT_TRUE(contents(file("w")) == bytes_);
    xds_close(f);
}

// A cancelled request's memory is the caller's when its completion comes, not before.
TEST_F(Staged, ACancelledRequestWaitsForItsCopy) {
    Memory sim(true, size);
    sim.fill(std::string(size, '-'));
    xds_file* f = open("f");
    for (uint32_t op : {XDS_READ, XDS_WRITE}) {
        xds_file* w = open("w", O_RDWR | O_CREAT);
        memory::sim_hold_copies(true);
        submit(op, op == XDS_READ ? f : w, sim.data(), 7);
        ASSERT_TRUE(becomes([] { return memory::sim_held_copies() == 1; }));
        EXPECT_EQ(xds_queue_cancel(queue_, 7), 0) << xds_error();
        others_go_on();
        EXPECT_EQ(completion(0).result, INT64_MIN) << "a copy still uses the memory";
        memory::sim_hold_copies(false);
        EXPECT_EQ(completion().result, -ECANCELED);
        xds_close(w);
    }
    xds_close(f);
    // Staging memory is all there again.
    xds_file* again = open("f");
    ASSERT_EQ(xds_pread(again, sim.data(), size, 0), static_cast<ssize_t>(size)) << xds_error();
    EXPECT_TRUE(sim.read(0, size) == bytes_);
    xds_close(again);
}

// What another driver exported, here as a memory file, of which a part begins in the middle of a page.
TEST_F(Staged, MemoryOfADmaBuf) {
    UniqueFd fd(memfd_create("exported", MFD_CLOEXEC));
    std::string all(2 * size, '#');
    ASSERT_EQ(write(fd.get(), all.data(), all.size()), static_cast<ssize_t>(all.size()));
    xds_buf* buf = nullptr;
    EXPECT_EQ(xds_buf_register_dmabuf(ctx_, fd.get(), size, size + 1, &buf), -EFAULT) << "longer than it";
    ASSERT_EQ(xds_buf_register_dmabuf(ctx_, fd.get(), 5000, size, &buf), 0) << xds_error();
    auto* address = static_cast<char*>(xds_buf_address(buf));
    ASSERT_NE(address, nullptr);
    xds_file *f = open("f"), *w = open("w", O_RDWR | O_CREAT);
    ASSERT_EQ(xds_pread(f, address + 3, size - 3, 0), static_cast<ssize_t>(size - 3)) << xds_error();
    all.replace(5003, size - 3, bytes_.substr(0, size - 3));
    std::string back(all.size(), '-');
    ASSERT_EQ(pread(fd.get(), back.data(), back.size(), 0), static_cast<ssize_t>(back.size()));
    EXPECT_TRUE(back == all);
    fd.reset();
    ASSERT_EQ(xds_pwrite(w, address + 3, 100'000, 0), 100'000) << xds_error();
    EXPECT_TRUE(contents(file("w")) == bytes_.substr(0, 100'000));
    EXPECT_EQ(xds_pread(f, address + 1, size, 0), -EFAULT);
    EXPECT_EQ(xds_buf_deregister(buf), 0);
    EXPECT_EQ(xds_buf_address(buf), nullptr);
    xds_close(f);
    xds_close(w);
}

// More than the staging memory, both ways at once, and with the sums checked.
TEST_F(Staged, LargeRequestsBothWaysAtOnce) {
    xds_options options{};
    options.staging_bytes = 3 << 20;
    options.verify = 1;
    xds_ctx* small = open_context(options);
    xds_file *f = nullptr, *w = nullptr;
    ASSERT_EQ(xds_open(small, "f", O_RDONLY, 0, &f), 0);
    ASSERT_EQ(xds_open(small, "w", O_RDWR | O_CREAT, 0600, &w), 0);
    Memory in(true, size), out(true, size);
    out.fill(bytes_);
    std::thread writer([&] {
        for (int i = 0; i < 3; ++i) {
            EXPECT_EQ(xds_pwrite(w, out.data(), size, 0), static_cast<ssize_t>(size)) << xds_error();
        }
    });
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(xds_pread(f, in.data(), size, 0), static_cast<ssize_t>(size)) << xds_error();
    }
    writer.join();
    EXPECT_TRUE(in.read(0, size) == bytes_);
    EXPECT_TRUE(contents(file("w")) == bytes_);
    EXPECT_EQ(xds_ctx_close(small), 0);
}

}  // namespace
}  // namespace fabric::xds
