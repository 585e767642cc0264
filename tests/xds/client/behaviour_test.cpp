// What a user of libxds meets beside bytes: completions, errors, forks, threads, modes.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "common/fault.h"
#include "tests/xds/client/fixture.h"

namespace fabric::xds {
namespace {

class Behaviour : public WithTarget {
  protected:
    void TearDown() override {
        ASSERT_TRUE(fault::arm("").ok());
        unsetenv("XDS_MODE");
        WithTarget::TearDown();
    }
    static std::vector<xds_completion> wait_for(xds_queue* queue, unsigned count) {
        std::vector<xds_completion> completions(count);
        for (auto& one : completions) one.size = sizeof one;
        EXPECT_EQ(xds_queue_wait(queue, completions.data(), count, count, 20'000), static_cast<int>(count));
        std::sort(completions.begin(), completions.end(),
                  [](const auto& a, const auto& b) { return a.cookie < b.cookie; });
        return completions;
    }
};

TEST_F(Behaviour, OneEntryOfABatchFailsAndTheOthersSucceed) {
    put(file("good"), "good bytes");
    xds_file* good = open("good");
    xds_file* write_only = open("other", O_WRONLY | O_CREAT);
    xds_file* closed = open("good");
    ASSERT_EQ(xds_close(closed), 0);
    char memory[6][16] = {};
    xds_queue* queue = nullptr;
    ASSERT_EQ(xds_queue_create(ctx_, 6, &queue), 0);
    xds_io ios[6] = {{sizeof(xds_io), XDS_READ, good, memory[0], 16, 0, 1},
                     {sizeof(xds_io), XDS_READ, write_only, memory[1], 16, 0, 2},
                     {sizeof(xds_io), XDS_READ, closed, memory[2], 16, 0, 3},
                     {sizeof(xds_io), XDS_READ, good, nullptr, 16, 0, 4},
                     {sizeof(xds_io), 77, good, memory[4], 16, 0, 5},
                     {sizeof(xds_io), XDS_READ, good, memory[5], 16, 5, 6}};
    ASSERT_EQ(xds_queue_submit(queue, ios, 6), 6);
    EXPECT_EQ(xds_queue_submit(queue, ios, 1), -EAGAIN);
    auto done = wait_for(queue, 6);
    EXPECT_EQ(done[0].result, 10);
    EXPECT_STREQ(memory[0], "good bytes");
    EXPECT_EQ(done[0].path, static_cast<uint32_t>(host_path()));
    EXPECT_EQ(std::string(done[0].reason), "the connection is " + transport_name() + "; host memory");
    EXPECT_EQ(done[1].result, -EBADF);
    EXPECT_NE(std::string(done[1].reason).find("test-node"), std::string::npos) << done[1].reason;
    EXPECT_EQ(done[2].result, -EBADF);
    EXPECT_EQ(done[3].result, -EFAULT);
    EXPECT_EQ(done[4].result, -EINVAL);
    EXPECT_EQ(done[5].result, 5);
    EXPECT_STREQ(memory[5], "bytes");
    EXPECT_EQ(xds_queue_wait(queue, done.data(), 6, 6, -1), 0) << "nothing is in progress";
    EXPECT_EQ(xds_queue_destroy(queue), 0);
    xds_close(good);
    xds_close(write_only);
}

TEST_F(Behaviour, AQueueWritesAndFlushes) {
    xds_file* f = open("w", O_RDWR | O_CREAT);
    std::string bytes = random_bytes(5 << 20, 1);
    xds_queue* queue = nullptr;
    ASSERT_EQ(xds_queue_create(ctx_, 8, &queue), 0);
    xds_io write{sizeof(xds_io), XDS_WRITE, f, bytes.data(), bytes.size(), 3, 1};
    ASSERT_EQ(xds_queue_submit(queue, &write, 1), 1);
    EXPECT_EQ(wait_for(queue, 1)[0].result, static_cast<int64_t>(bytes.size()));
    xds_io flush{sizeof(xds_io), XDS_FSYNC, f, nullptr, 0, 0, 2};
    ASSERT_EQ(xds_queue_submit(queue, &flush, 1), 1);
    EXPECT_EQ(wait_for(queue, 1)[0].result, 0);
    EXPECT_TRUE(contents(file("w")) == std::string(3, '\0') + bytes);
    ASSERT_TRUE(fault::arm("backing.fsync=EIO*1").ok());
    EXPECT_EQ(xds_fsync(f), -EIO);
    EXPECT_NE(std::string(xds_error()).find("w: "), std::string::npos) << xds_error();
    EXPECT_EQ(xds_fsync(f), 0);
    EXPECT_EQ(xds_queue_destroy(queue), 0);
    xds_close(f);
}

TEST_F(Behaviour, CancelledRequestsComplete) {
    put(file("f"), random_bytes(1 << 20, 2));
    xds_file* f = open("f");
    xds_queue* queue = nullptr;
    ASSERT_EQ(xds_queue_create(ctx_, 300, &queue), 0);
    std::vector<std::vector<char>> memory(300, std::vector<char>(1 << 20));
    for (unsigned i = 0; i < 300; ++i) {
        xds_io io{sizeof(xds_io), XDS_READ, f, memory[i].data(), 1 << 20, 0, i % 2};
        ASSERT_EQ(xds_queue_submit(queue, &io, 1), 1);
    }
    int answer = xds_queue_cancel(queue, 1);
    EXPECT_TRUE(answer == 0 || answer == -ENOENT);
    EXPECT_EQ(xds_queue_cancel(queue, 12345), -ENOENT);
    auto done = wait_for(queue, 300);
    for (const auto& one : done)
        EXPECT_TRUE(one.result == 1 << 20 || (one.cookie == 1 && one.result == -ECANCELED)) << one.reason;
    EXPECT_EQ(xds_queue_destroy(queue), 0);
    xds_close(f);
}

TEST_F(Behaviour, HandlesThatAreNoneAreRefused) {
    char byte = 0;
    for (auto bits : {uintptr_t{0}, uintptr_t{1}, uintptr_t{0x7fff12345678}, UINTPTR_MAX}) {
        EXPECT_EQ(xds_pread(reinterpret_cast<xds_file*>(bits), &byte, 1, 0), -EBADF);
        EXPECT_EQ(xds_close(reinterpret_cast<xds_file*>(bits)), -EBADF);
        EXPECT_EQ(xds_ctx_close(reinterpret_cast<xds_ctx*>(bits)), -EBADF);
        EXPECT_EQ(xds_queue_destroy(reinterpret_cast<xds_queue*>(bits)), -EBADF);
        EXPECT_EQ(xds_buf_deregister(reinterpret_cast<xds_buf*>(bits)), -EBADF);
    }
    put(file("f"), "f");
    xds_file* f = open("f");
    EXPECT_EQ(xds_close(f), 0);
    EXPECT_EQ(xds_close(f), -EBADF);
    EXPECT_EQ(xds_pread(f, &byte, 1, 0), -EBADF);
    f = open("f");
    EXPECT_EQ(xds_pread(f, &byte, 1, -1), -EINVAL);
    EXPECT_EQ(xds_pread(f, nullptr, 1, 0), -EFAULT);
    EXPECT_EQ(xds_open(ctx_, "missing", O_RDONLY, 0, &f), -ENOENT);
    EXPECT_NE(std::string(xds_error()).find("missing"), std::string::npos) << xds_error();
    EXPECT_EQ(xds_open(ctx_, "f", O_RDWR | O_APPEND, 0, &f), -EINVAL);
    EXPECT_EQ(xds_open(ctx_, "", O_RDONLY, 0, &f), -EINVAL);
    void* sim = xds_sim_alloc(4096, 0);
    xds_buf* buf = nullptr;
    EXPECT_EQ(xds_buf_register(ctx_, sim, 4097, &buf), -EFAULT);
    EXPECT_EQ(xds_buf_register(ctx_, sim, 4096, &buf), 0);
    EXPECT_EQ(xds_buf_deregister(buf), 0);
    EXPECT_EQ(xds_buf_register_dmabuf(ctx_, -1, 0, 4096, &buf), -EBADF);
    EXPECT_EQ(xds_sim_free(sim), 0);
}

TEST_F(Behaviour, ExplainAndModesSayWhichWayAndWhy) {
    put(file("f"), "0123456789");
    void* sim = xds_sim_alloc(4096, 0);
    char host[16], line[256];
    struct Case {
        const char* mode;
        bool sim;
        const char* expected;
        ssize_t result;
    };
    std::vector<Case> cases = {
        Case{"auto", false, "tcp: host memory; the connection is TCP", 10},
        Case{"auto", true, "staged: sim memory; the connection is TCP, and only", 10},
        Case{"staged", false, "staged: host memory; mode staged", 10},
        Case{"tcp", false, "tcp: host memory; mode tcp", 10},
        Case{"direct_only", false, "none: mode direct_only: the connection to 127.0.0.1", -ENOTSUP},
        Case{"direct_only", true, "none: mode direct_only", -ENOTSUP}};
    if (host_path() == XDS_PATH_DIRECT)
        cases = {
            Case{"auto", false, "direct: host memory; the connection is RDMA", 10},
            Case{"auto", true, "staged: sim memory; the RDMA card does not reach sim memory", 10},
            Case{"staged", false, "staged: host memory; mode staged", 10},
            Case{"tcp", false, "tcp: host memory; mode tcp", 10},
            Case{"direct_only", false, "direct: host memory; the connection is RDMA", 10},
            Case{"direct_only", true, "none: mode direct_only: the RDMA card does not reach sim memory", -ENOTSUP}};
    for (const Case& one : cases) {
        setenv("XDS_MODE", one.mode, 1);
        xds_ctx* ctx = open_context();
        xds_file* f = nullptr;
        ASSERT_EQ(xds_open(ctx, "f", O_RDONLY, 0, &f), 0) << xds_error();
        void* memory = one.sim ? sim : host;
        EXPECT_GT(xds_explain(f, memory, 10, line, sizeof line), 0);
        EXPECT_EQ(std::string(line).find(one.expected), 0u) << one.mode << ": " << line;
        EXPECT_EQ(xds_pread(f, memory, 10, 0), one.result) << one.mode;
        if (one.result < 0) {
            EXPECT_NE(std::string(xds_error()).find("RDMA"), std::string::npos);
        }
        EXPECT_EQ(xds_ctx_close(ctx), 0);
    }
    setenv("XDS_MODE", "fast", 1);
    xds_options options{};
    options.size = sizeof options;
    options.address = config.listen.c_str();
    xds_ctx* ctx = nullptr;
    EXPECT_EQ(xds_ctx_open(&options, &ctx), -EINVAL);
    EXPECT_NE(std::string(xds_error()).find("XDS_MODE=fast"), std::string::npos);
    EXPECT_EQ(xds_sim_free(sim), 0);
}

TEST_F(Behaviour, AForkLeavesTheParentAloneAndTheChildStartsAnew) {
    put(file("f"), "from the target");
    xds_file* f = open("f");
    char back[32];
    pid_t child = fork();
    if (child == 0) {
        if (xds_pread(f, back, 15, 0) != -ENOTCONN) _exit(1);
        if (std::string(xds_error()).find("fork") == std::string::npos) _exit(2);
        if (xds_ctx_close(ctx_) != 0) _exit(3);
        xds_options options{};
        options.size = sizeof options;
        options.address = config.listen.c_str();
        xds_ctx* own = nullptr;
        if (xds_ctx_open(&options, &own) != 0) _exit(4);
        if (xds_open(own, "f", O_RDONLY, 0, &f) != 0) _exit(5);
        if (xds_pread(f, back, 15, 0) != 15) _exit(6);
        exit(std::string(back, 15) == "from the target" ? 0 : 7);
    }
    EXPECT_EQ(xds_pread(f, back, 15, 0), 15) << xds_error();
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
    EXPECT_EQ(xds_pread(f, back, 15, 0), 15) << xds_error();
    xds_close(f);
}

TEST_F(Behaviour, ThreadsOpenAndCloseWhileOthersRead) {
    std::string bytes = random_bytes(300'000, 3);
    put(file("f"), bytes);
    std::atomic<xds_file*> shared{open("f")};
    std::atomic<bool> stop{false};
    std::atomic<int> right{0}, refused{0}, wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            std::vector<char> memory(200'000);
            while (!stop) {
                ssize_t got = xds_pread(shared.load(), memory.data(), memory.size(), t * 1000);
                if (got == -EBADF)
                    ++refused;
                else if (got == static_cast<ssize_t>(memory.size()) &&
                         std::memcmp(memory.data(), bytes.data() + t * 1000, memory.size()) == 0)
                    ++right;
                else
                    ++wrong;
            }
        });
    for (int i = 0; i < 200; ++i) {
        xds_file* fresh = open("f");
        EXPECT_EQ(xds_close(shared.exchange(fresh)), 0) << xds_error();
    }
    while (right < 50) std::this_thread::yield();
    stop = true;
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(xds_close(shared), 0);
}

TEST_F(Behaviour, AContextClosesUnderThoseWhoUseIt) {
    std::string bytes = random_bytes(1 << 20, 4);
    put(file("f"), bytes);
    for (int round = 0; round < 10; ++round) {
        xds_ctx* ctx = open_context();
        xds_file* f = nullptr;
        ASSERT_EQ(xds_open(ctx, "f", O_RDONLY, 0, &f), 0);
        std::atomic<int> begun{0};
        std::vector<std::thread> threads;
        for (int t = 0; t < 3; ++t)
            threads.emplace_back([&] {
                std::vector<char> memory(1 << 20);
                ssize_t got = 0;
                while ((got = xds_pread(f, memory.data(), memory.size(), 0)) == 1 << 20) ++begun;
                EXPECT_TRUE(got == -ECANCELED || got == -EBADF) << got << ": " << xds_error();
            });
        while (begun < 3) std::this_thread::yield();
        EXPECT_EQ(xds_ctx_close(ctx), 0);
        for (auto& thread : threads) thread.join();
        xds_close(f);
    }
}

TEST_F(Behaviour, FilesOfThisMachineGoByThisProcess) {
    std::string path = file("local"), bytes = random_bytes(3 << 20, 5);
    put(path, bytes);
    int fd = ::open(path.c_str(), O_RDWR);
    xds_file* f = nullptr;
    ASSERT_EQ(xds_open_fd(ctx_, fd, &f), 0) << xds_error();
    close(fd);
    for (bool sim : {false, true}) {
        Memory memory(sim, bytes.size());
        EXPECT_EQ(xds_pread(f, memory.data(), bytes.size(), 1), static_cast<ssize_t>(bytes.size() - 1));
        EXPECT_TRUE(memory.read(0, bytes.size() - 1) == bytes.substr(1));
        char line[200];
        xds_explain(f, memory.data(), 10, line, sizeof line);
        EXPECT_EQ(std::string(line).find("local: "), 0u) << line;
        memory.fill("written", 5);
        EXPECT_EQ(xds_pwrite(f, memory.data() + 5, 7, 100), 7);
        bytes.replace(100, 7, "written");
    }
    EXPECT_EQ(xds_fsync(f), 0);
    EXPECT_EQ(contents(path).substr(100, 7), "written");
    xds_attributes attributes{};
    attributes.size = sizeof attributes;
    EXPECT_EQ(xds_stat(f, &attributes), 0);
    EXPECT_EQ(attributes.bytes, bytes.size());
    EXPECT_EQ(xds_close(f), 0);
    EXPECT_EQ(xds_open_fd(ctx_, 9999, &f), -EBADF);
}

// Over RDMA what a caller registers stays registered: later requests lend windows of it, or the caller's promise is
// simply not needed.
TEST_F(Behaviour, RegisteredMemoryIsUsedAgainAndGivenUpInAnyOrder) {
    std::string bytes = random_bytes(4 << 20, 6);
    put(file("f"), bytes);
    xds_file* f = open("f", O_RDWR);
    std::vector<char> memory(bytes.size() + 100);
    xds_buf *whole = nullptr, *part = nullptr;
    ASSERT_EQ(xds_buf_register(ctx_, memory.data(), memory.size(), &whole), 0) << xds_error();
    ASSERT_EQ(xds_buf_register(ctx_, memory.data() + 50, 1000, &part), 0) << xds_error();
    for (int round = 0; round < 10; ++round) {
        std::fill(memory.begin(), memory.end(), '#');
        ASSERT_EQ(xds_pread(f, memory.data() + round, bytes.size(), 0), static_cast<ssize_t>(bytes.size()))
            << xds_error();
        ASSERT_EQ(std::string(memory.data() + round, bytes.size()), bytes);
        ASSERT_EQ(xds_pwrite(f, memory.data() + round, 5000, 0), 5000) << xds_error();
        xds_buf* over = round == 3 ? part : (round == 6 ? whole : nullptr);
        if (over != nullptr) {
            EXPECT_EQ(xds_buf_deregister(over), 0);
        }
    }
    EXPECT_EQ(xds_buf_deregister(whole), -EBADF);
    xds_stats stats{};
    stats.size = sizeof stats;
    ASSERT_EQ(xds_stats_get(ctx_, &stats), 0);
    EXPECT_EQ(host_bytes(stats), 10 * (bytes.size() + 5000));
    xds_close(f);
}

// Memory that is mapped for reading alone can be written from.
TEST_F(Behaviour, ConstantMemoryCanBeWritten) {
    void* page = mmap(nullptr, 20'480, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(page, MAP_FAILED);
    xds_file* f = open("constant", O_RDWR | O_CREAT);
    EXPECT_EQ(xds_pwrite(f, page, 20'480, 0), 20'480) << xds_error();
    EXPECT_TRUE(contents(file("constant")) == std::string(20'480, '\0'));
    xds_close(f);
    munmap(page, 20'480);
}

TEST_F(Behaviour, StartUpIsQuickAndSilent) {
    testing::internal::CaptureStderr();
    auto start = std::chrono::steady_clock::now();
    xds_ctx* ctx = open_context();
    auto took = std::chrono::steady_clock::now() - start;
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    RecordProperty("start_up_us",
                   static_cast<int>(std::chrono::duration_cast<std::chrono::microseconds>(took).count()));
    std::printf("start-up: %.2f ms\n", std::chrono::duration<double, std::milli>(took).count());
    EXPECT_EQ(xds_ctx_close(ctx), 0);
}

// The file system was asked for direct I/O and takes it back: at the first transfer, and then at each.
class Refusal : public WithTarget {
  protected:
    void configure() override { config.direct = target::Direct::always; }
    void TearDown() override {
        ASSERT_TRUE(fault::arm("").ok());
        WithTarget::TearDown();
    }
};

TEST_F(Refusal, ADirectTransferThatIsRefusedGoesThroughThePageCache) {
    std::string bytes = random_bytes(3'000'000, 9), back(bytes.size(), '#');
    put(file("f"), bytes);
    xds_file* f = open("f", O_RDWR);
    ASSERT_TRUE(fault::arm("backing.read=EINVAL*1 backing.write=EINVAL*1").ok());
    EXPECT_EQ(xds_pread(f, back.data(), back.size(), 0), static_cast<ssize_t>(back.size())) << xds_error();
    EXPECT_TRUE(back == bytes);
    std::string block = random_bytes(1 << 20, 10);
    EXPECT_EQ(xds_pwrite(f, block.data(), block.size(), 4096), 1 << 20) << xds_error();
    EXPECT_TRUE(contents(file("f")) == bytes.substr(0, 4096) + block + bytes.substr(4096 + (1 << 20)));
    xds_close(f);
}

}  // namespace
}  // namespace fabric::xds
