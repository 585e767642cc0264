// Bytes against an oracle: what was put on the disk is what arrives in memory of every kind, and the other way round.
#include <fcntl.h>
#include <sys/stat.h>

#include "tests/xds/client/fixture.h"

namespace fabric::xds {
namespace {

struct Variant {
    bool sim;
    target::Direct direct;
    uint32_t piece;
    const char* name;
};

class Data : public WithTarget, public testing::WithParamInterface<Variant> {
  protected:
    void configure() override { config.direct = GetParam().direct; }
    void SetUp() override {
        WithTarget::SetUp();
        xds_ctx_close(ctx_);
        xds_options options{};
        options.piece = GetParam().piece;
        options.verify = 1;
        ctx_ = open_context(options);
    }
    bool sim() const { return GetParam().sim; }
};

INSTANTIATE_TEST_SUITE_P(All, Data,
                         testing::Values(Variant{false, target::Direct::automatic, 1 << 20, "HostAuto"},
                                         Variant{false, target::Direct::always, 4 << 20, "HostDirect"},
                                         Variant{false, target::Direct::never, 64 << 10, "HostCache"},
                                         Variant{true, target::Direct::always, 64 << 10, "SimDirect"},
                                         Variant{true, target::Direct::never, 1 << 20, "SimCache"}),
                         [](const auto& variant) { return variant.param.name; });

TEST_P(Data, OffsetLengthAndBufferOffsetAroundABlock) {
    std::string bytes = random_bytes(3 * 4096 + 1234, 1);
    put(file("f"), bytes);
    xds_file* f = open("f");
    Memory memory(sim(), 4 * 4096);
    for (int offset : {0, 1, 4095, 4096, 4097, 8191, 13000, 13522, 13523, 20000})
        for (int length : {1, 4095, 4096, 4097, 8192})
            for (int at : {0, 1, 4095, 4096, 4097}) {
                memory.fill(std::string(4 * 4096, '#'));
                std::string expected = bytes.substr(std::min<size_t>(offset, bytes.size()), length);
                ASSERT_EQ(xds_pread(f, memory.data() + at, length, offset), static_cast<ssize_t>(expected.size()))
                    << xds_error();
                ASSERT_EQ(memory.read(at, expected.size()), expected) << offset << " " << length << " " << at;
                std::string rest = memory.read(at + expected.size(), 4 * 4096 - at - expected.size());
                ASSERT_EQ(rest, std::string(rest.size(), '#')) << "bytes behind the answer were touched";
                ASSERT_EQ(memory.read(0, at), std::string(at, '#')) << "bytes before the buffer were touched";
            }
    EXPECT_EQ(xds_close(f), 0);
}

TEST_P(Data, LargeReadsAndTheEndOfTheFile) {
    std::string bytes = random_bytes((20 << 20) + 777, 2);
    put(file("large"), bytes);
    xds_file* f = open("large");
    Memory memory(sim(), bytes.size() + 100);
    ASSERT_EQ(xds_pread(f, memory.data(), bytes.size() + 100, 0), static_cast<ssize_t>(bytes.size())) << xds_error();
    EXPECT_TRUE(memory.read(0, bytes.size()) == bytes);
    EXPECT_EQ(xds_pread(f, memory.data(), 100, static_cast<off_t>(bytes.size())), 0);
    EXPECT_EQ(xds_pread(f, memory.data(), 100, static_cast<off_t>(bytes.size() + 5000)), 0);
    EXPECT_EQ(xds_pread(f, memory.data(), 0, 0), 0);
    xds_stats stats{};
    stats.size = sizeof stats;
    ASSERT_EQ(xds_stats_get(ctx_, &stats), 0);
    EXPECT_EQ(sim() ? stats.staged_bytes : host_bytes(stats), bytes.size());
    EXPECT_EQ(stats.verified_bytes, bytes.size());
    EXPECT_EQ(stats.checksum_errors, 0u);
    EXPECT_EQ(xds_close(f), 0);
}

TEST_P(Data, WritesLandWhereTheyShould) {
    std::string oracle(9 << 20, '\0');
    xds_file* f = open("written", O_RDWR | O_CREAT, 0640);
    std::mt19937_64 random(3);
    Memory memory(sim(), 3 << 20);
    for (int round = 0; round < 25; ++round) {
        size_t length = random() % 3 == 0 ? (random() % 512 + 1) * 4096 : random() % (2 << 20) + 1;
        size_t offset = random() % 3 == 0 ? random() % 1024 * 4096 : random() % (6 << 20);
        std::string bytes = random_bytes(length, round);
        memory.fill(bytes, 7);
        ASSERT_EQ(xds_pwrite(f, memory.data() + 7, length, static_cast<off_t>(offset)), static_cast<ssize_t>(length))
            << xds_error();
        oracle.replace(offset, length, bytes);
    }
    ASSERT_EQ(xds_fsync(f), 0) << xds_error();
    std::string disk = contents(file("written"));
    EXPECT_TRUE(disk == oracle.substr(0, disk.size()));
    struct stat status;
    ASSERT_EQ(stat(file("written").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0640u);
    Memory back(sim(), disk.size());
    ASSERT_EQ(xds_pread(f, back.data(), disk.size(), 0), static_cast<ssize_t>(disk.size())) << xds_error();
    EXPECT_TRUE(back.read(0, disk.size()) == disk);
    EXPECT_EQ(xds_close(f), 0);
}

TEST_P(Data, ManySmallFiles) {
    std::vector<std::string> bytes, paths;
    std::mt19937_64 random(4);
    for (int i = 0; i < 700; ++i) {
        paths.push_back("small" + std::to_string(i));
        bytes.push_back(random_bytes(random() % 9000, i));
        if (i % 100 != 50) put(file(paths.back()), bytes.back());
    }
    constexpr size_t room = 8192;
    Memory memory(sim(), 700 * room);
    std::vector<xds_many> list(700);
    for (size_t i = 0; i < list.size(); ++i) {
        list[i] = {};
        list[i].size = sizeof(xds_many);
        list[i].path = paths[i].c_str();
        list[i].buffer = memory.data() + i * room;
        list[i].length = room;
    }
    EXPECT_EQ(xds_read_many(ctx_, list.data(), 700), 7) << xds_error();
    for (size_t i = 0; i < list.size(); ++i) {
        if (i % 100 == 50) {
            EXPECT_EQ(list[i].error, -ENOENT);
            EXPECT_EQ(list[i].got, 0u);
            continue;
        }
        ASSERT_EQ(list[i].error, 0) << i;
        EXPECT_EQ(list[i].file_size, bytes[i].size());
        ASSERT_EQ(list[i].got, std::min(room, bytes[i].size()));
        ASSERT_TRUE(memory.read(i * room, list[i].got) == bytes[i].substr(0, room)) << i;
    }
}

TEST_P(Data, ABatchLargerThanStagingMemoryProgresses) {
    xds_options options{};
    options.staging_bytes = 256 << 10;
    options.piece = 128 << 10;
    xds_ctx* ctx = open_context(options);
    std::string bytes = random_bytes(16 << 20, 5);
    put(file("batch"), bytes);
    xds_file* f = nullptr;
    ASSERT_EQ(xds_open(ctx, "batch", O_RDONLY, 0, &f), 0) << xds_error();
    xds_queue* queue = nullptr;
    ASSERT_EQ(xds_queue_create(ctx, 64, &queue), 0);
    Memory memory(sim(), bytes.size());
    std::vector<xds_io> ios(64);
    for (unsigned i = 0; i < 64; ++i)
        ios[i] = {sizeof(xds_io), XDS_READ, f, memory.data() + i * (256 << 10), 256 << 10, i * uint64_t{256 << 10}, i};
    ASSERT_EQ(xds_queue_submit(queue, ios.data(), 64), 64) << xds_error();
    unsigned seen = 0;
    std::vector<xds_completion> completions(64);
    for (auto& one : completions) one.size = sizeof one;
    while (seen < 64) {
        int got = xds_queue_wait(queue, completions.data(), 64, 1, 30'000);
        ASSERT_GT(got, 0);
        for (int i = 0; i < got; ++i) {
            EXPECT_EQ(completions[i].result, 256 << 10) << completions[i].reason;
            EXPECT_EQ(completions[i].path, static_cast<uint32_t>(sim() ? XDS_PATH_STAGED : host_path()));
            EXPECT_EQ(sim() ? completions[i].staged_bytes : host_bytes(completions[i]), uint64_t{256 << 10});
            EXPECT_NE(completions[i].reason[0], 0);
        }
        seen += static_cast<unsigned>(got);
    }
    EXPECT_TRUE(memory.read(0, bytes.size()) == bytes);
    EXPECT_EQ(xds_queue_destroy(queue), 0);
    EXPECT_EQ(xds_close(f), 0);
    EXPECT_EQ(xds_ctx_close(ctx), 0);
}

}  // namespace
}  // namespace fabric::xds
