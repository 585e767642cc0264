#include "common/io/engine.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <latch>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "common/fault.h"
#include "common/unique_fd.h"

namespace {
std::atomic<uint64_t> allocations{0};
}

// Not inlined: the compiler would see free() take what operator new gave, and warn.
[[gnu::noinline]] void* operator new(size_t bytes) {
    allocations.fetch_add(1, std::memory_order_relaxed);
    void* memory = malloc(bytes);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { free(memory); }

namespace fabric::io {
namespace {

constexpr size_t kib = 1024;
constexpr size_t mib = 1024 * kib;

struct Aligned {
    explicit Aligned(size_t bytes) : data(static_cast<char*>(aligned_alloc(4096, (bytes + 4095) & ~size_t{4095}))) {}
    ~Aligned() { free(data); }
    Aligned(const Aligned&) = delete;
    char* data;
};

// A request that can be awaited.
struct Call : Request {
    Call() {
        complete = [](Request& request) { static_cast<Call&>(request).done_latch.count_down(); };
    }
    void wait() { done_latch.wait(); }
    std::latch done_latch{1};
};

class EngineTest : public testing::Test {
  protected:
    void SetUp() override {
        Result<std::unique_ptr<Engine>> started = Engine::start({.lanes = 2, .depth = 16, .bytes_in_flight = 4 * mib});
        ASSERT_TRUE(started.ok()) << started.status().message();
        engine = std::move(started).value();
        const char* folder = getenv("TMPDIR");
        path = std::string(folder != nullptr ? folder : "/tmp") + "/engine_test.XXXXXX";
        file.reset(mkostemp(path.data(), O_CLOEXEC));
        ASSERT_TRUE(file);
    }
    void TearDown() override {
        EXPECT_TRUE(fault::arm("").ok());
        engine.reset();
        unlink(path.c_str());
    }
    std::string fill(size_t bytes) {
        std::mt19937_64 random(bytes);
        std::string content(bytes, '\0');
        for (char& byte : content) byte = static_cast<char>(random());
        EXPECT_EQ(pwrite(file.get(), content.data(), bytes, 0), static_cast<ssize_t>(bytes));
        return content;
    }
    std::string on_disk() {
        struct stat status {};
        fstat(file.get(), &status);
        std::string content(static_cast<size_t>(status.st_size), '\0');
        EXPECT_EQ(pread(file.get(), content.data(), content.size(), 0), status.st_size);
        return content;
    }
    void run(Call& call, Op op, uint64_t offset, std::vector<iovec>& iov, int fd = -1) {
        call.op = op;
        call.fd = fd >= 0 ? fd : file.get();
        call.offset = offset;
        call.iov = iov.data();
        call.iov_count = static_cast<int>(iov.size());
        call.length = 0;
        for (const iovec& part : iov) call.length += part.iov_len;
        engine->submit(call);
        call.wait();
    }

    std::unique_ptr<Engine> engine;
    std::string path;
    UniqueFd file;
};

TEST_F(EngineTest, ReadsExactBytesAtAnyOffsetIntoAnyPieces) {
    std::string content = fill(mib + 333);
    std::mt19937 random(1);
    for (int round = 0; round < 200; ++round) {
        uint64_t offset = random() % content.size();
        std::vector<std::string> pieces(1 + random() % 9);
        std::vector<iovec> iov;
        for (std::string& piece : pieces) {
            piece.resize(1 + random() % (40 * kib), 'x');
            iov.push_back({piece.data(), piece.size()});
        }
        Call call;
        run(call, Op::read, offset, iov);
        ASSERT_EQ(call.error, 0);
        ASSERT_EQ(call.done, std::min<size_t>(call.length, content.size() - offset));
        std::string got;
        for (std::string& piece : pieces) got += piece;
        ASSERT_EQ(got.substr(0, call.done), content.substr(offset, call.done)) << "round " << round;
        ASSERT_EQ(got.find_first_not_of('x', call.done), std::string::npos) << "bytes past the end were touched";
    }
}

TEST_F(EngineTest, ContinuesShortReadsAndWrites) {
    std::string content = fill(300 * kib + 7);
    ASSERT_TRUE(fault::arm("backing.read=short:4099 backing.write=short:777").ok());
    std::string got(content.size(), 'x');
    std::vector<iovec> iov{{got.data(), 5}, {got.data() + 5, 100 * kib}, {got.data() + 5 + 100 * kib, 200 * kib + 2}};
    Call call;
    run(call, Op::read, 0, iov);
    EXPECT_EQ(call.error, 0);
    EXPECT_EQ(call.done, content.size());
    EXPECT_TRUE(got == content);
    EXPECT_GE(fault::struck("backing.read"), content.size() / 4099);

    std::string changed(got.rbegin(), got.rend());
    std::vector<iovec> source{{changed.data(), 1}, {changed.data() + 1, changed.size() - 1}};
    Call write;
    run(write, Op::write, 0, source);
    EXPECT_EQ(write.error, 0);
    EXPECT_EQ(write.done, changed.size());
    EXPECT_TRUE(on_disk() == changed);
}

TEST_F(EngineTest, RepeatsInterruptedCallsAndReportsErrors) {
    std::string content = fill(64 * kib);
    std::string got(content.size(), 'x');
    std::vector<iovec> iov{{got.data(), got.size()}};
    ASSERT_TRUE(fault::arm("backing.read=EINTR*3").ok());
    Call interrupted;
    run(interrupted, Op::read, 0, iov);
    EXPECT_EQ(interrupted.error, 0);
    EXPECT_TRUE(got == content);
    ASSERT_TRUE(fault::arm("backing.read=EAGAIN").ok());
    Call never;
    run(never, Op::read, 0, iov);
    EXPECT_EQ(never.error, EAGAIN) << "an endless EAGAIN must end";
    ASSERT_TRUE(fault::arm("backing.read=EIO*1 backing.fsync=EIO*1 backing.write=ENOSPC*1").ok());
    Call read, write, sync;
    run(read, Op::read, 0, iov);
    EXPECT_EQ(read.error, EIO);
    run(write, Op::write, 0, iov);
    EXPECT_EQ(write.error, ENOSPC);
    std::vector<iovec> nothing;
    run(sync, Op::fdatasync, 0, nothing);
    EXPECT_EQ(sync.error, EIO);
    Call again;
    run(again, Op::fsync, 0, nothing);
    EXPECT_EQ(again.error, 0);
}

TEST_F(EngineTest, DirectReadsEndExactlyAndContinue) {
    std::string content = fill(256 * kib + 100);
    fsync(file.get());
    UniqueFd direct(open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
    if (!direct) GTEST_SKIP() << "the file system of " << path << " refuses O_DIRECT: " << strerror(errno);
    for (const char* faults : {"", "backing.read=short:5000"}) {
        ASSERT_TRUE(fault::arm(faults).ok());
        Aligned memory(512 * kib);
        memset(memory.data, 'x', 512 * kib);
        std::vector<iovec> iov{{memory.data, 512 * kib}};
        Call call;
        call.alignment = 4096;
        run(call, Op::read, 0, iov, direct.get());
        EXPECT_EQ(call.error, 0);
        ASSERT_EQ(call.done, content.size()) << faults;
        EXPECT_EQ(memcmp(memory.data, content.data(), content.size()), 0);
    }
}

TEST_F(EngineTest, FallocateReservesTheRange) {
    Call call;
    call.op = Op::fallocate;
    call.fd = file.get();
    call.offset = 4096;
    call.length = 64 * kib;
    engine->submit(call);
    call.wait();
    if (call.error == EOPNOTSUPP) GTEST_SKIP() << "the file system of " << path << " has no fallocate";
    ASSERT_EQ(call.error, 0);
    struct stat status {};
    fstat(file.get(), &status);
    EXPECT_EQ(status.st_size, 4096 + 64 * static_cast<off_t>(kib));
}

// 2,000 requests of 64 KiB at once: never more than the limit in flight, and every one ends right.
TEST_F(EngineTest, AFloodStaysWithinTheLimits) {
    std::string content = fill(4 * mib);
    Budget own(256 * kib);
    constexpr size_t count = 2000;
    struct Flood : Request {
        iovec part{};
        std::atomic<size_t>* left = nullptr;
    };
    std::vector<Flood> calls(count);
    std::vector<std::string> memory(count, std::string(64 * kib, 'x'));
    std::atomic<size_t> left{count};
    static std::atomic<size_t> most_own, most_all;
    static Budget* own_budget;
    static Engine* the_engine;
    most_own = most_all = 0;
    own_budget = &own;
    the_engine = engine.get();
    for (size_t i = 0; i < count; ++i) {
        Flood& call = calls[i];
        call.part = {memory[i].data(), memory[i].size()};
        call.iov = &call.part;
        call.iov_count = 1;
        call.fd = file.get();
        call.length = 64 * kib;
        call.offset = i % 64 * 64 * kib;
        call.budget = i % 2 == 0 ? &own : nullptr;
        call.left = &left;
        call.complete = [](Request& request) {
            most_own = std::max(most_own.load(), own_budget->used());
            most_all = std::max(most_all.load(), the_engine->bytes_in_flight());
            auto* remaining = static_cast<Flood&>(request).left;
            if (remaining->fetch_sub(1) == 1) remaining->notify_all();
        };
        engine->submit(call);
    }
    for (size_t now = left.load(); now != 0; now = left.load()) left.wait(now);
    EXPECT_LE(most_own, 256 * kib);
    EXPECT_LE(most_all, 4 * mib);
    for (size_t i = 0; i < count; ++i) {
        ASSERT_EQ(calls[i].error, 0);
        ASSERT_EQ(memcmp(memory[i].data(), content.data() + i % 64 * 64 * kib, 64 * kib), 0) << i;
    }
}

TEST_F(EngineTest, TheFastPathAllocatesNothing) {
    fill(64 * kib);
    std::string got(64 * kib, 'x');
    std::vector<iovec> iov{{got.data(), got.size()}};
    constexpr int count = 1000;
    std::vector<std::unique_ptr<Call>> calls;
    for (int i = 0; i < count + 10; ++i) calls.push_back(std::make_unique<Call>());
    for (int i = 0; i < 10; ++i) run(*calls[static_cast<size_t>(count + i)], Op::read, 0, iov);
    uint64_t before = allocations.load();
    for (int i = 0; i < count; ++i) run(*calls[static_cast<size_t>(i)], Op::read, 0, iov);
    EXPECT_EQ(allocations.load() - before, 0U);
}

TEST_F(EngineTest, ManyThreadsSubmitAtOnce) {
    std::string content = fill(mib);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            std::mt19937 random(t);
            for (int i = 0; i < 1000; ++i) {
                uint64_t offset = random() % (mib - 4096);
                char bytes[4096];
                std::vector<iovec> iov{{bytes, sizeof bytes}};
                Call call;
                run(call, Op::read, offset, iov);
                ASSERT_EQ(call.error, 0);
                ASSERT_EQ(memcmp(bytes, content.data() + offset, sizeof bytes), 0);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace fabric::io
