// Memory that a call has given back is the caller's own: what a target does late, on a request that timed out or was
// cancelled, does not touch it.
#include <fcntl.h>

#include <chrono>
#include <thread>
#include <utility>

#include "common/fault.h"
#include "tests/xds/client/fixture.h"

namespace fabric::xds {
namespace {

using std::chrono::steady_clock;

// How memory is lent: registered for one request, registered by the caller (a window, over RDMA), staged.
enum class Lent { for_the_request, registered, staged };

class Ownership : public WithTarget, public testing::WithParamInterface<Lent> {
  protected:
    static constexpr size_t size = 1 << 20;

    void SetUp() override {
        WithTarget::SetUp();
        ASSERT_EQ(xds_ctx_close(std::exchange(ctx_, nullptr)), 0);
        xds_options options{};
        options.size = sizeof options;
        options.address = config.listen.c_str();
        options.timeout_ms = 700;
        // Short for a request that is held at the disk; to connect may take longer on a busy machine.
        int opened = -1;
        for (auto end = steady_clock::now() + std::chrono::seconds(30); opened != 0 && steady_clock::now() < end;)
            opened = xds_ctx_open(&options, &ctx_);
        ASSERT_EQ(opened, 0) << xds_error();
        bytes_ = random_bytes(size, 1);
        put(file("f"), bytes_);
        if (GetParam() == Lent::registered) {
            ASSERT_EQ(xds_buf_register(ctx_, memory_.data(), size, &buf_), 0);
        }
    }
    void TearDown() override {
        ASSERT_TRUE(fault::arm("").ok());
        if (buf_ != nullptr) {
            EXPECT_EQ(xds_buf_deregister(buf_), 0);
        }
        WithTarget::TearDown();
    }
    void expect_untouched() {
        memory_.fill(std::string(size, '#'));
        // The target goes on with the late request, or finds its client gone, then it is idle.
        auto end = steady_clock::now() + std::chrono::seconds(30);
        while (target_->bytes_in_flight() != 0 && steady_clock::now() < end)
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        EXPECT_EQ(target_->bytes_in_flight(), 0u);
        EXPECT_TRUE(memory_.read(0, size) == std::string(size, '#')) << "bytes of a request that was over";
    }
    void expect_right_bytes(xds_file* f) {
        ssize_t got = -1;
        for (auto end = steady_clock::now() + std::chrono::seconds(20); got < 0 && steady_clock::now() < end;)
            got = xds_pread(f, memory_.data(), size, 0);
        ASSERT_EQ(got, static_cast<ssize_t>(size)) << xds_error();
        EXPECT_TRUE(memory_.read(0, size) == bytes_);
    }

    Memory memory_{GetParam() == Lent::staged, size};
    xds_buf* buf_ = nullptr;
    std::string bytes_;
};

INSTANTIATE_TEST_SUITE_P(All, Ownership, testing::Values(Lent::for_the_request, Lent::registered, Lent::staged),
                         [](const auto& lent) {
                             return lent.param == Lent::staged
                                        ? "Staged"
                                        : (lent.param == Lent::registered ? "Registered" : "ForTheRequest");
                         });

TEST_P(Ownership, AReadThatTimedOutTouchesNothingLater) {
    xds_file* f = open("f");
    ASSERT_TRUE(fault::arm("backing.read=delay:2500*1").ok());
    EXPECT_EQ(xds_pread(f, memory_.data(), size, 0), -ETIMEDOUT) << xds_error();
    expect_untouched();
    expect_right_bytes(f);
    EXPECT_EQ(xds_close(f), 0);
}

TEST_P(Ownership, AReadThatWasCancelledTouchesNothingLater) {
    xds_file* f = open("f");
    xds_queue* queue = nullptr;
    ASSERT_EQ(xds_queue_create(ctx_, 4, &queue), 0);
    ASSERT_TRUE(fault::arm("backing.read=delay:300*1").ok());
    xds_io io{sizeof io, XDS_READ, f, memory_.data(), size, 0, 77};
    ASSERT_EQ(xds_queue_submit(queue, &io, 1), 1);
    EXPECT_EQ(xds_queue_cancel(queue, 77), 0);
    xds_completion completion{};
    completion.size = sizeof completion;
    ASSERT_EQ(xds_queue_wait(queue, &completion, 1, 1, 20'000), 1);
    EXPECT_EQ(completion.cookie, 77u);
    EXPECT_TRUE(completion.result == -ECANCELED || completion.result == static_cast<int64_t>(size))
        << completion.result;
    expect_untouched();
    expect_right_bytes(f);
    EXPECT_EQ(xds_queue_destroy(queue), 0);
    EXPECT_EQ(xds_close(f), 0);
}

// The file gets what the memory held when the call was made, or nothing: never what came into it afterwards.
TEST_P(Ownership, AWriteThatTimedOutTakesNothingLater) {
    xds_file* f = open("w", O_RDWR | O_CREAT, 0644);
    memory_.fill(bytes_);
    ASSERT_TRUE(fault::arm("backing.write=delay:2500*1").ok());
    EXPECT_EQ(xds_pwrite(f, memory_.data(), size, 0), -ETIMEDOUT) << xds_error();
    expect_untouched();
    std::string found = contents(file("w"));
    EXPECT_TRUE(found.empty() || found == bytes_);
    EXPECT_EQ(xds_close(f), 0);
}

}  // namespace
}  // namespace fabric::xds
