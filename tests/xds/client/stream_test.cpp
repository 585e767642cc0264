// Requests in the order of a stream: after what was given before, before what is given afterwards, with what stands in
// the caller's variables when their turn has come.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <thread>

#include "tests/xds/client/fixture.h"
#include "xds/memory/sim.h"

namespace fabric::xds {
namespace {

constexpr ssize_t untouched = -7777;

// Holds a stream until the test lets it go on.
class Gate {
  public:
    static void pass(void* self) { static_cast<Gate*>(self)->opened_.get_future().get(); }
    void open() { opened_.set_value(); }

  private:
    std::promise<void> opened_;
};

struct Request {
    size_t length = 0;
    off_t offset = 0, at = 0;
    ssize_t result = untouched;
};

class Streams : public WithTarget, public testing::WithParamInterface<const char*> {
  protected:
    void SetUp() override {
        WithTarget::SetUp();
        ASSERT_EQ(xds_stream_open(GetParam(), nullptr, &stream_), 0) << xds_error();
    }
    void TearDown() override {
        if (stream_ != nullptr) {
            EXPECT_EQ(xds_stream_close(stream_), 0) << xds_error();
        }
        WithTarget::TearDown();
    }
    bool sim() const { return std::string(GetParam()) == "sim"; }
    int read(xds_file* f, Memory& memory, Request& request) {
        return xds_read_stream(f, memory.data(), &request.length, &request.offset, &request.at, &request.result,
                               stream_);
    }
    int write(xds_file* f, Memory& memory, Request& request) {
        return xds_write_stream(f, memory.data(), &request.length, &request.offset, &request.at, &request.result,
                                stream_);
    }
    xds_stream* stream_ = nullptr;
};
INSTANTIATE_TEST_SUITE_P(All, Streams, testing::Values("host", "sim"), [](const auto& one) { return one.param; });

TEST_P(Streams, KeepTheOrderAndLookAtVariablesWhenTheirTurnHasCome) {
    std::string bytes = random_bytes(3'000'001, 1);
    xds_file* f = open("f", O_RDWR | O_CREAT);
    Memory memory(sim(), 4 << 20), back(sim(), 4 << 20);
    Gate gate;
    Request saved, loaded;
    struct Seen {
        Request *saved, *loaded;
        ssize_t before = 0, after = 0;
    } seen{&saved, &loaded};
    ASSERT_EQ(xds_stream_call(stream_, &Gate::pass, &gate), 0) << xds_error();
    // What it writes, and where, is not known yet.
    struct Late {
        Request* saved;
        Memory* memory;
        const std::string* bytes;
    } late{&saved, &memory, &bytes};
    auto set = [](void* argument) {
        auto* mine = static_cast<Late*>(argument);
        mine->memory->fill(*mine->bytes, 5);
        mine->saved->length = mine->bytes->size();
        mine->saved->offset = 77;
        mine->saved->at = 5;
    };
    auto look = [](void* argument) {
        auto* mine = static_cast<Seen*>(argument);
        mine->before = mine->saved->result;
        mine->after = mine->loaded->result;
        mine->loaded->length = 4 << 20;
        mine->loaded->offset = 70;
    };
    ASSERT_EQ(xds_stream_call(stream_, set, &late), 0);
    ASSERT_EQ(write(f, memory, saved), 0) << xds_error();
    ASSERT_EQ(xds_stream_call(stream_, look, &seen), 0);
    ASSERT_EQ(read(f, back, loaded), 0) << xds_error();
    EXPECT_EQ(saved.result, untouched);
    EXPECT_EQ(std::filesystem::file_size(file("f")), 0u);
    gate.open();
    ASSERT_EQ(xds_stream_sync(stream_), 0) << xds_error();
    EXPECT_EQ(saved.result, static_cast<ssize_t>(bytes.size()));
    EXPECT_EQ(seen.before, saved.result) << "the write was over when what follows it began";
    EXPECT_EQ(seen.after, untouched) << "the read had not begun when what precedes it ran";
    EXPECT_TRUE(contents(file("f")) == std::string(77, '\0') + bytes);
    EXPECT_EQ(loaded.result, static_cast<ssize_t>(bytes.size() + 7));
    EXPECT_TRUE(back.read(0, bytes.size() + 7) == std::string(7, '\0') + bytes);
    xds_close(f);
}

TEST_P(Streams, ErrorsAreTheRequestsOwnAndTheFirstIsTold) {
    put(file("f"), "bytes");
    xds_file *f = open("f"), *write_only = open("w", O_WRONLY | O_CREAT);
    Memory memory(sim(), 4096);
    Request good{5, 0, 0}, beyond{5, 100, 0}, wrong{5, 0, 0}, negative{5, -1, 0}, backwards{5, 0, -1}, last{5, 0, 1};
    ASSERT_EQ(read(f, memory, good), 0);
    ASSERT_EQ(read(f, memory, beyond), 0);
    ASSERT_EQ(read(write_only, memory, wrong), 0);
    ASSERT_EQ(read(f, memory, negative), 0);
    ASSERT_EQ(read(f, memory, backwards), 0);
    ASSERT_EQ(read(f, memory, last), 0);
    EXPECT_EQ(xds_stream_sync(stream_), -EBADF);
    EXPECT_NE(std::string(xds_error()).find("test-node"), std::string::npos) << xds_error();
    EXPECT_EQ(xds_stream_sync(stream_), 0) << "told once";
    EXPECT_EQ(good.result, 5);
    EXPECT_EQ(beyond.result, 0);
    EXPECT_EQ(wrong.result, -EBADF);
    EXPECT_EQ(negative.result, -EINVAL);
    EXPECT_EQ(backwards.result, -EINVAL);
    EXPECT_EQ(last.result, 5);
    EXPECT_EQ(memory.read(0, 6), "bbytes");
    xds_close(f);
    xds_close(write_only);
}

TEST_P(Streams, WhatIsWrongAtOnceIsSaidAtOnce) {
    put(file("f"), "bytes");
    xds_file* f = open("f");
    Memory memory(sim(), 4096);
    Request one{5, 0, 0};
    EXPECT_EQ(xds_read_stream(f, nullptr, &one.length, &one.offset, &one.at, &one.result, stream_), -EINVAL);
    EXPECT_EQ(xds_read_stream(f, memory.data(), nullptr, &one.offset, &one.at, &one.result, stream_), -EINVAL);
    EXPECT_EQ(xds_read_stream(f, memory.data(), &one.length, &one.offset, &one.at, nullptr, stream_), -EINVAL);
    EXPECT_EQ(xds_read_stream(f, memory.data(), &one.length, &one.offset, &one.at, &one.result, nullptr), -EBADF);
    EXPECT_EQ(xds_stream_call(stream_, nullptr, nullptr), -EINVAL);
    xds_stream* other = nullptr;
    EXPECT_EQ(xds_stream_open("abacus", nullptr, &other), -ENOTSUP);
    EXPECT_EQ(xds_stream_open(GetParam(), &other, &other), -EINVAL) << "it has no streams of a device";
    EXPECT_EQ(xds_stream_open(GetParam(), nullptr, nullptr), -EINVAL);
    ASSERT_EQ(xds_close(f), 0);
    EXPECT_EQ(read(f, memory, one), -EBADF);
    EXPECT_EQ(one.result, untouched);
}

// The file, then the context, are closed while requests wait: they end, by an error.
TEST_P(Streams, WhatIsClosedMeanwhileIsAnError) {
    put(file("f"), "bytes");
    xds_file *f = open("f"), *g = open("f");
    Memory memory(sim(), 4096);
    Gate gate;
    Request one{5, 0, 0}, two{5, 0, 0};
    ASSERT_EQ(xds_stream_call(stream_, &Gate::pass, &gate), 0);
    ASSERT_EQ(read(f, memory, one), 0);
    ASSERT_EQ(read(g, memory, two), 0);
    ASSERT_EQ(xds_close(f), 0);
    ASSERT_EQ(xds_ctx_close(std::exchange(ctx_, nullptr)), 0);
    gate.open();
    EXPECT_LT(xds_stream_sync(stream_), 0);
    EXPECT_LT(one.result, 0);
    EXPECT_EQ(two.result, -ECANCELED);
}

TEST_P(Streams, ClosingWaitsForWhatIsLeft) {
    std::string bytes = random_bytes(2 << 20, 2);
    put(file("f"), bytes);
    xds_file* f = open("f");
    Memory memory(sim(), bytes.size());
    Gate gate;
    std::vector<Request> requests(20, Request{100'000, 0, 0});
    ASSERT_EQ(xds_stream_call(stream_, &Gate::pass, &gate), 0);
    for (size_t i = 0; i < requests.size(); ++i) {
        requests[i].offset = requests[i].at = static_cast<off_t>(i * 100'000);
        ASSERT_EQ(read(f, memory, requests[i]), 0);
    }
    std::future<int> closed = std::async(std::launch::async, [&] { return xds_stream_close(stream_); });
    EXPECT_EQ(closed.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
    gate.open();
    EXPECT_EQ(closed.get(), 0);
    for (const Request& one : requests) EXPECT_EQ(one.result, 100'000);
    EXPECT_TRUE(memory.read(0, 2'000'000) == bytes.substr(0, 2'000'000));
    EXPECT_EQ(read(f, memory, requests[0]), -EBADF) << "a closed handle";
    EXPECT_EQ(xds_stream_close(std::exchange(stream_, nullptr)), -EBADF);
    xds_close(f);
}

TEST_P(Streams, OwnWorkCannotWaitForItself) {
    struct Self {
        xds_stream* stream;
        int sync = 0, close = 0;
    } self{stream_};
    auto wait = [](void* argument) {
        auto* mine = static_cast<Self*>(argument);
        mine->sync = xds_stream_sync(mine->stream);
        mine->close = xds_stream_close(mine->stream);
    };
    ASSERT_EQ(xds_stream_call(stream_, wait, &self), 0);
    ASSERT_EQ(xds_stream_sync(stream_), 0);
    EXPECT_EQ(self.sync, -EDEADLK);
    EXPECT_EQ(self.close, -EDEADLK);
}

TEST_P(Streams, AnotherStreamGoesOnMeanwhile) {
    put(file("f"), "bytes");
    xds_file* f = open("f");
    Memory memory(sim(), 4096), other_memory(sim(), 4096);
    Gate gate;
    Request held{5, 0, 0}, free{5, 0, 0};
    xds_stream* other = nullptr;
    ASSERT_EQ(xds_stream_open(GetParam(), nullptr, &other), 0);
    ASSERT_EQ(xds_stream_call(stream_, &Gate::pass, &gate), 0);
    ASSERT_EQ(read(f, memory, held), 0);
    ASSERT_EQ(xds_read_stream(f, other_memory.data(), &free.length, &free.offset, &free.at, &free.result, other), 0);
    ASSERT_EQ(xds_stream_sync(other), 0);
    EXPECT_EQ(free.result, 5);
    EXPECT_EQ(held.result, untouched);
    EXPECT_EQ(xds_stream_close(other), 0);
    gate.open();
    ASSERT_EQ(xds_stream_sync(stream_), 0);
    EXPECT_EQ(held.result, 5);
    xds_close(f);
}

TEST_P(Streams, FilesOfThisProcessToo) {
    std::string bytes = random_bytes(2'500'000, 3);
    put(file("f"), bytes);
    int fd = ::open(file("f").c_str(), O_RDONLY);
    xds_file* f = nullptr;
    ASSERT_EQ(xds_open_fd(nullptr, fd, &f), 0);
    ::close(fd);
    Memory memory(sim(), bytes.size());
    Request one{bytes.size(), 0, 0};
    ASSERT_EQ(read(f, memory, one), 0);
    ASSERT_EQ(xds_stream_sync(stream_), 0);
    EXPECT_EQ(one.result, static_cast<ssize_t>(bytes.size()));
    EXPECT_TRUE(memory.read(0, bytes.size()) == bytes);
    xds_close(f);
}

TEST_P(Streams, AForkTakesNothingAwayAndTheChildIsTold) {
    put(file("f"), "bytes");
    xds_file* f = open("f");
    Memory memory(sim(), 4096);
    Gate gate;
    Request one{5, 0, 0};
    ASSERT_EQ(xds_stream_call(stream_, &Gate::pass, &gate), 0);
    ASSERT_EQ(read(f, memory, one), 0);
    pid_t child = fork();
    if (child == 0) {
        Request own{5, 0, 0};
        if (read(f, memory, own) != -ENOTCONN) _exit(1);
        if (xds_stream_sync(stream_) != -ENOTCONN) _exit(2);
        if (xds_stream_close(stream_) != 0) _exit(3);
        xds_stream* fresh = nullptr;
        if (xds_stream_open(GetParam(), nullptr, &fresh) != 0) _exit(4);
        bool called = false;
        if (xds_stream_call(
                fresh, [](void* it) { *static_cast<bool*>(it) = true; }, &called) != 0)
            _exit(5);
        _exit(xds_stream_close(fresh) == 0 && called ? 0 : 6);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    gate.open();
    ASSERT_EQ(xds_stream_sync(stream_), 0);
    EXPECT_EQ(one.result, 5);
    xds_close(f);
}

// A slow accelerator's stream: each piece waits before it begins, and none overtakes another.
TEST_F(WithTarget, ASlowStreamKeepsTheOrder) {
    using std::chrono::steady_clock;
    constexpr std::chrono::milliseconds each{30};
    memory::sim_configure({.copy_bytes_per_second = 100'000'000, .stream_delay = each});
    std::string bytes = random_bytes(1'000'000, 4);
    Memory first(true, bytes.size()), second(true, bytes.size());
    xds_stream* stream = nullptr;
    ASSERT_EQ(xds_stream_open("sim", nullptr, &stream), 0);
    memory::sim_configure({});
    first.fill(bytes);
    xds_file* f = open("f", O_RDWR | O_CREAT);
    Request save{bytes.size(), 0, 0}, load{bytes.size(), 0, 0};
    auto begun = steady_clock::now();
    ASSERT_EQ(xds_write_stream(f, first.data(), &save.length, &save.offset, &save.at, &save.result, stream), 0);
    ASSERT_EQ(xds_read_stream(f, second.data(), &load.length, &load.offset, &load.at, &load.result, stream), 0);
    ASSERT_EQ(xds_stream_sync(stream), 0) << xds_error();
    EXPECT_GE(steady_clock::now() - begun, 2 * each + std::chrono::milliseconds(20));
    EXPECT_TRUE(second.read(0, bytes.size()) == bytes);
    EXPECT_EQ(xds_stream_close(stream), 0);
    xds_close(f);
}

}  // namespace
}  // namespace fabric::xds
