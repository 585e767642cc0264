#include "burstbuffer/writeback/write_back.h"

#include <random>

#include "burstbuffer/writeback/metrics.h"
#include "tests/unit/burstbuffer/writeback/write_back_fixture.h"

namespace fabric::writeback {
namespace {

class WriteBackTest : public testing::Test {
  protected:
    void SetUp() override {
        if (std::string why = bench.unfit(); !why.empty()) GTEST_SKIP() << why;
        bench.open();
    }
    static void arm(const char* faults) { ASSERT_TRUE(fault::arm(faults).ok()); }
    void write(const WriteBackFixture::Opened& file, const std::string& bytes, uint64_t offset = 0) {
        Result<size_t> taken = bench.write(file, offset, bytes);
        ASSERT_TRUE(taken.ok()) << taken.status().message();
        ASSERT_EQ(*taken, bytes.size());
    }
    void write_durably(const WriteBackFixture::Opened& file, const std::string& bytes, uint64_t offset = 0) {
        write(file, bytes, offset);
        ASSERT_TRUE(bench.all->commit(file.id).ok());
    }
    bool eventually(const std::function<bool()>& condition) {
        for (int i = 0; i < 600 && !condition(); ++i) bench.all->wait_for_progress(std::chrono::milliseconds(100));
        return condition();
    }

    Folder folder;
    WriteBackFixture bench{folder.path()};
};

TEST_F(WriteBackTest, WhatIsLostUncoversWhatWasThere) {
    auto file = bench.file("a");
    arm("drain.open=EIO");
    write_durably(file, "first");
    write(file, "SEC");
    EXPECT_EQ(bench.read(file), "SECst");
    arm("drain.open=EIO store.publish=EIO*1");
    unsigned told = 0;
    bench.all->on_loss([&](const Status&) { ++told; });
    EXPECT_EQ(bench.all->commit(file.id).errno_value(), EIO);
    EXPECT_EQ(told, 1U);
    EXPECT_EQ(bench.read(file), "first");
    arm("");
    ASSERT_TRUE(bench.drained());
    EXPECT_EQ(bench.at_backing(file), "first");
}

// A commit that one of two disks fails is lost on both, and does not come back at the next start.
TEST_F(WriteBackTest, ACommitIsLostOnAllDisksOrNone) {
    bench.disk_count = 2;
    bench.open();
    auto file = bench.file("a");
    arm("drain.open=EIO");
    write_durably(file, std::string(16 * 4096, 'o'));
    for (const char* fault : {"drain.open=EIO store.publish.disk=EIO*1", "drain.open=EIO store.publish.disk1=EIO*1"}) {
        for (uint64_t i = 0; i < 16; ++i) write(file, std::string(4096, 'n'), i * 4096);
        arm(fault);
        ASSERT_FALSE(bench.all->commit(file.id).ok()) << "no piece was on the disk that fails";
        EXPECT_EQ(bench.read(file), std::string(16 * 4096, 'o'));
        arm("drain.open=EIO");
        bench.open();
        EXPECT_EQ(bench.read(file), std::string(16 * 4096, 'o')) << "at the next start";
    }
    arm("");
    ASSERT_TRUE(bench.drained());
    EXPECT_EQ(bench.at_backing(file), std::string(16 * 4096, 'o'));
}

// Two disks hang without an error: one with bytes that a client reads, one at the sync of a commit.
TEST_F(WriteBackTest, ADiskThatHangsEndsCallsWithAnErrorAndLosesNothing) {
    bench.disk_count = 2;
    bench.hung_after = 1;
    bench.open();
    std::vector<WriteBackFixture::Opened> files;
    std::string bytes(3 * 4096 + 100, 'd');
    arm("drain.open=EIO");
    for (int i = 0; i < 24; ++i) {  // a disk of two without any: once in 16 million runs
        files.push_back(bench.file(std::to_string(i)));
        write_durably(files.back(), bytes);
    }
    unsigned told = 0;
    bench.all->on_loss([&](const Status&) { ++told; });
    arm("drain.open=EIO store.read.disk=hang:4000 store.sync.disk1=hang:4000*1");
    std::jthread syncs([&] {
        auto file = bench.file("b");
        for (uint64_t i = 0; i < 8; ++i) write(file, bytes, i * bytes.size());  // on both disks
        EXPECT_EQ(bench.all->commit(file.id).errno_value(), EIO);
        EXPECT_EQ(told, 1U);
        EXPECT_EQ(bench.read(file), std::string(8 * bytes.size(), '\0')) << "its writer was told";
    });
    unsigned not_read = 0;
    for (const auto& file : files) {
        std::string got(bytes.size(), '?');
        Status read = bench.all->read(file.id, file.fd.get(), 0, got.size(), got.data());
        if (read.ok()) {
            EXPECT_EQ(got, bytes);
            continue;
        }
        ++not_read;
        EXPECT_EQ(read.errno_value(), EIO);
        EXPECT_NE(read.message().find("disk " + folder.path() + "/disk"), std::string::npos) << read.message();
        EXPECT_NE(read.message().find("does not answer"), std::string::npos) << read.message();
    }
    EXPECT_GT(not_read, 0U) << "no file was on the disk that hangs";
    syncs.join();
    arm("");
    ASSERT_TRUE(bench.drained());
    for (const auto& file : files) EXPECT_EQ(bench.at_backing(file), bytes);
}

// What covers a piece altogether, and is not durable yet, must not end it.
TEST_F(WriteBackTest, OnlyWhatIsDurableSupersedes) {
    auto file = bench.file("a");
    arm("drain.open=EIO writeback.publish=delay:300*1");
    write(file, "first");
    std::jthread committer([&] { EXPECT_TRUE(bench.all->commit(file.id).ok()); });
    ASSERT_TRUE(eventually([] { return fault::struck("writeback.publish") == 1; }));
    write(file, "SECOND");
    committer.join();
    arm("drain.open=EIO store.publish=EIO*1");
    EXPECT_FALSE(bench.all->commit(file.id).ok());
    EXPECT_EQ(bench.read(file), std::string("first\0", 6)) << "the size had grown";
    arm("");
    ASSERT_TRUE(bench.drained());
    EXPECT_EQ(bench.at_backing(file), std::string("first\0", 6));
}

TEST_F(WriteBackTest, ManyCommitsShareASync) {
    constexpr int threads = 16, times = 8;
    int64_t before = metrics().syncs.value();
    arm("store.publish=delay:10");
    {
        std::vector<std::jthread> all;
        for (int thread = 0; thread < threads; ++thread) {
            all.emplace_back([this, thread] {
                auto file = bench.file(std::to_string(thread));
                for (int i = 0; i < times; ++i) write_durably(file, std::string(5000, static_cast<char>('a' + i)));
            });
        }
    }
    EXPECT_LT(metrics().syncs.value() - before, threads * times / 2);
    ASSERT_TRUE(bench.drained());
    EXPECT_EQ(bench.at_backing(bench.file("3")), std::string(5000, 'a' + times - 1));
}

TEST_F(WriteBackTest, WhatIsLargerThanAllThatMayBeGoesThrough) {
    bench.options.max_dirty = 4096;
    bench.open();
    auto file = bench.file("a");
    Result<size_t> taken = bench.write(file, 0, std::string(10000, 'x'));
    ASSERT_TRUE(taken.ok());
    EXPECT_EQ(*taken, 0U);
    EXPECT_FALSE(bench.all->dirty(file.id));
}

TEST_F(WriteBackTest, AFileThatIsGoneIsNotDrained) {
    arm("drain.open=EIO");
    {
        auto file = bench.file("a");
        write_durably(file, std::string(100000, 'x'));
        ASSERT_EQ(::unlink(bench.path("a").c_str()), 0);
    }
    auto other = bench.file("b");
    write_durably(other, "other");
    arm("");
    ASSERT_TRUE(bench.drained());
    EXPECT_EQ(bench.at_backing(other), "other");
}

TEST_F(WriteBackTest, AnUnlinkedFileThatIsOpenIsReadToItsEnd) {
    arm("drain.open=EIO");
    auto file = bench.file("a");
    write_durably(file, std::string(100000, 'x'));
    ASSERT_EQ(::unlink(bench.path("a").c_str()), 0);
    EXPECT_EQ(bench.read(file), std::string(100000, 'x'));
    arm("");
    ASSERT_TRUE(bench.drained());
    EXPECT_EQ(bench.read(file), std::string(100000, 'x'));
}

// Only this node's disk had them: nobody gets others, and the drain says so until the file is written again.
TEST_F(WriteBackTest, DamagedBytesAreAnError) {
    auto file = bench.file("a");
    arm("drain.open=EIO");
    write_durably(file, std::string(100000, 'x'));
    arm("drain.open=EIO store.read=EIO");
    std::string bytes(100000, '?');
    EXPECT_EQ(bench.all->read(file.id, file.fd.get(), 0, bytes.size(), bytes.data()).errno_value(), EIO);
    arm("drain.read=EIO");
    auto trouble = [&] { return bench.all->queues().front().trouble; };
    ASSERT_TRUE(eventually([&] { return trouble() && trouble()->local; }));
    EXPECT_EQ(bench.all->flush(file.id).errno_value(), EIO);
    arm("drain.read=EIO*1");
    write_durably(file, std::string(100000, 'y'));
    ASSERT_TRUE(bench.drained());
    EXPECT_EQ(bench.at_backing(file), std::string(100000, 'y'));
    EXPECT_FALSE(trouble());
}

// The backing store's own "stale", as a network file system says it, loses nothing.
TEST_F(WriteBackTest, StaleWhileWritingIsTriedAgain) {
    auto file = bench.file("a");
    arm("drain.write=ESTALE*3 drain.fsync=ESTALE*2");
    write_durably(file, "kept");
    ASSERT_TRUE(bench.drained());
    EXPECT_EQ(bench.at_backing(file), "kept");
}

TEST_F(WriteBackTest, AFullDiskSlowsDown) {
    bench.capacity = 6 * mib;
    bench.open();
    arm("drain.write=delay:5");
    std::vector<std::string> contents;
    for (int i = 0; i < 24; ++i) {
        auto file = bench.file(std::to_string(i));
        contents.emplace_back(mib - 100, static_cast<char>('a' + i));
        Result<size_t> taken = bench.write(file, 0, contents.back());
        ASSERT_TRUE(taken.ok()) << taken.status().message();
        if (*taken == 0) {
            ASSERT_EQ(pwrite(file.fd.get(), contents.back().data(), contents.back().size(), 0),
                      static_cast<ssize_t>(contents.back().size()));
        }
        ASSERT_TRUE(bench.all->commit(file.id).ok());
    }
    ASSERT_TRUE(bench.drained());
    for (int i = 0; i < 24; ++i)
        EXPECT_EQ(bench.at_backing(bench.file(std::to_string(i))), contents[static_cast<size_t>(i)]);
}

// A rate that would take hours gives way to age, and to who waits.
TEST_F(WriteBackTest, TheRateGivesWay) {
    bench.options.drain_rate = 1;
    bench.options.max_age = std::chrono::milliseconds(300);
    bench.open();
    auto file = bench.file("a");
    write_durably(file, std::string(100000, 'x'));
    ASSERT_TRUE(eventually([&] { return !bench.all->dirty(file.id); })) << "by its age";
    bench.options.max_age = std::chrono::hours(5);
    bench.open();
    auto other = bench.file("b");
    write_durably(other, std::string(100000, 'y'));
    EXPECT_TRUE(bench.all->flush(other.id).ok());
    EXPECT_EQ(bench.at_backing(other), std::string(100000, 'y'));
}

// The drain may do next to nothing, and a writer goes on and on: what is first is drained all the same.
TEST_F(WriteBackTest, TheOldestIsDrainedWhileOthersAreWritten) {
    bench.options.drain_rate = 1;
    bench.options.max_age = std::chrono::milliseconds(200);
    bench.open();
    auto first = bench.file("first"), others = bench.file("others");
    write_durably(first, std::string(100000, 'x'));
    auto late = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (uint64_t i = 0; bench.all->dirty(first.id) && std::chrono::steady_clock::now() < late; ++i) {
        write_durably(others, std::string(4096, 'y'), i % 1000 * 4096);
    }
    ASSERT_FALSE(bench.all->dirty(first.id));
    EXPECT_EQ(bench.at_backing(first), std::string(100000, 'x'));
}

TEST_F(WriteBackTest, WhatNobodyCommitsIsDrainedToo) {
    bench.options.settle = std::chrono::milliseconds(50);
    bench.open();
    auto file = bench.file("a");
    write(file, "forgotten");
    ASSERT_TRUE(eventually([&] { return !bench.all->dirty(file.id); }));
    EXPECT_EQ(bench.at_backing(file), "forgotten");
}

TEST_F(WriteBackTest, APieceThatChangesItsRuleIsStillDrained) {
    arm("drain.open=EIO");
    auto file = bench.file("a");
    write_durably(file, "kept");
    bench.options.paths = {"/elsewhere/**"};
    bench.open();
    EXPECT_EQ(bench.read(file), "kept");
    arm("");
    ASSERT_TRUE(bench.drained());
    EXPECT_EQ(bench.at_backing(file), "kept");
}

// Writers and readers of the same files, while they are drained, truncated and flushed.
TEST_F(WriteBackTest, ManyThreadsOnOneFile) {
    bench.options.max_dirty = 2 * mib;
    bench.open();
    constexpr size_t threads = 6, region = 50000;
    auto file = bench.file("a");
    {
        std::vector<std::jthread> all;
        for (size_t thread = 0; thread < threads; ++thread) {
            all.emplace_back([&, thread] {
                std::mt19937 random(static_cast<unsigned>(thread));
                std::string model(region, 'a');
                write(file, model, thread * region);
                for (int step = 0; step < 120; ++step) {
                    size_t offset = random() % region, length = 1 + random() % (region - offset);
                    std::string bytes(length, static_cast<char>('a' + step % 26));
                    write(file, bytes, thread * region + offset);
                    model.replace(offset, length, bytes);
                    std::string seen(region, '?');
                    Status read = bench.all->read(file.id, file.fd.get(), thread * region, region, seen.data());
                    ASSERT_TRUE(read.ok()) << read.message();
                    ASSERT_EQ(seen, model) << "thread " << thread << ", step " << step;
                    if (step % 10 == 0) {
                        ASSERT_TRUE(bench.all->commit(file.id).ok());
                    }
                    if (step % 40 == 39) {
                        ASSERT_TRUE(bench.all->flush(file.id).ok());
                    }
                }
            });
        }
    }
    std::string seen = bench.read(file);
    ASSERT_TRUE(bench.drained());
    EXPECT_EQ(bench.at_backing(file), seen);
}

TEST_F(WriteBackTest, TheDrainLeavesReadersMostOfTheTime) {
    auto reads = std::make_shared<std::atomic<uint64_t>>();
    bench.options.share = 0.0001;
    bench.read_so_far = [reads] { return ++*reads; };
    bench.open();
    arm("drain.open=EIO");
    std::vector<WriteBackFixture::Opened> files;
    for (int i = 0; i < 8; ++i) {
        files.push_back(bench.file(std::to_string(i)));
        write_durably(files.back(), std::string(mib, static_cast<char>('a' + i)));
    }
    auto undrained = [&] { return bench.all->queues()[0].bytes; };
    uint64_t all = undrained();
    arm("");
    ASSERT_TRUE(eventually([&] { return undrained() < all; }));
    EXPECT_GT(undrained(), 0U) << "all at once, though there are readers";
    EXPECT_TRUE(bench.all->flush(files.back().id).ok()) << "who waits for it waits for no readers";
    EXPECT_EQ(bench.at_backing(files.back()), std::string(mib, 'h'));
}

TEST_F(WriteBackTest, ARemovedFileIsGoneThoughItIsBeingDrained) {
    arm("drain.open=EIO");
    auto file = bench.file("a");
    for (uint64_t i = 0; i < 5; ++i) write_durably(file, "bytes", i * 100'000);
    fs::FileId id = file.id;
    file.fd.reset();
    arm("drain.write=delay:200");
    ASSERT_TRUE(eventually([] { return fault::struck("drain.write") != 0; }));
    std::filesystem::remove(bench.path("a"));
    bench.all->unlinked(id);
    EXPECT_EQ(bench.filesystem->open(id, O_PATH).status().errno_value(), ESTALE);
    arm("");
    EXPECT_TRUE(bench.drained());
}

TEST_F(WriteBackTest, AStartGivesAFileItsSizeBack) {
    arm("drain.open=EIO");
    auto file = bench.file("a"), cut = bench.file("b");
    write_durably(file, std::string(5000, 'x'));
    write_durably(cut, std::string(5000, 'y'));
    ASSERT_EQ(bench.truncate(cut, 100), 0);
    bench.close();
    // As a power cut leaves it: only the bytes here were synced.
    ASSERT_EQ(ftruncate(file.fd.get(), 0), 0);
    bench.open();
    EXPECT_EQ(bench.read(file), std::string(5000, 'x'));
    EXPECT_EQ(bench.read(cut), std::string(100, 'y'));
    arm("");
    ASSERT_TRUE(bench.drained());
    EXPECT_EQ(bench.at_backing(file), std::string(5000, 'x'));
    EXPECT_EQ(bench.at_backing(cut), std::string(100, 'y'));
}

}  // namespace
}  // namespace fabric::writeback
