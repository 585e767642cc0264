#include <gtest/gtest.h>

#include "burstbuffer/node/settings.h"

namespace fabric::node {
namespace {

TEST(BurstBufferSettings, TheExampleHasTheDefaults) {
    Result<Settings> settings = load_settings(EXAMPLE);
    ASSERT_TRUE(settings.ok()) << settings.status().message();
    const Settings defaults;
    EXPECT_EQ(settings->cache.memory, defaults.cache.memory);
    EXPECT_EQ(settings->cache.remembered, defaults.cache.remembered);
    EXPECT_EQ(settings->cache.read_ahead, defaults.cache.read_ahead);
    EXPECT_EQ(settings->cache.flights.bytes, defaults.cache.flights.bytes);
    EXPECT_EQ(settings->cache.flights.writers, defaults.cache.flights.writers);
    EXPECT_EQ(settings->cache.settle, defaults.cache.settle);
    EXPECT_DOUBLE_EQ(settings->cache.eviction.high, defaults.cache.eviction.high);
    EXPECT_DOUBLE_EQ(settings->cache.eviction.low, defaults.cache.eviction.low);
    EXPECT_EQ(settings->backing_threads, defaults.backing_threads);
    EXPECT_EQ(settings->buffer_memory, defaults.buffer_memory);
    EXPECT_EQ(settings->stage_workers, defaults.stage_workers);
    EXPECT_EQ(settings->socket, defaults.socket);
    ASSERT_EQ(settings->disks.size(), 1U);
    const disks::DiskOptions disk;
    EXPECT_EQ(settings->disks[0].reserve, disk.reserve);
    EXPECT_EQ(settings->disks[0].segment_size, disk.segment_size);
    EXPECT_EQ(settings->disks[0].capacity, 0U);
    EXPECT_EQ(settings->disks[0].spare_segments, 1U);
}

TEST(BurstBufferSettings, WriteBack) {
    Result<Settings> settings = parse_settings(
        "disks:\n  - folder: /a\nwriteback:\n  paths:\n    - /ckpt/**\n    - /x/*.pt\n  replicas: 1\n  max_dirty: "
        "3GiB\n"
        "  max_age: 7\n  drain_rate: 100MiB\n  shutdown: keep\n",
        "F");
    ASSERT_TRUE(settings.ok()) << settings.status().message();
    const writeback::Options& options = settings->write_back;
    EXPECT_EQ(options.paths, (std::vector<std::string>{"/ckpt/**", "/x/*.pt"}));
    EXPECT_EQ(options.max_dirty, uint64_t{3} << 30);
    EXPECT_EQ(options.max_age, std::chrono::seconds(7));
    EXPECT_EQ(options.drain_rate, uint64_t{100} << 20);
    EXPECT_EQ(options.at_end, writeback::Options::AtEnd::keep);
    EXPECT_TRUE(parse_settings("disks:\n  - folder: /a\n", "F")->write_back.paths.empty());
}

TEST(BurstBufferSettings, DatasetsAndTheNode) {
    Result<Settings> settings = parse_settings(
        "disks:\n  - folder: /a\ndatasets:\n  - path: /d/one/**\n    quota: 2GiB\n  - path: /d/**\n    quota: "
        "1MiB\nnode:\n"
        "  self_mounted: true\n",
        "F");
    ASSERT_TRUE(settings.ok()) << settings.status().message();
    ASSERT_EQ(settings->datasets.size(), 2U);
    EXPECT_EQ(settings->datasets[0].path, "/d/one/**");
    EXPECT_EQ(settings->datasets[0].quota, uint64_t{2} << 30);
    EXPECT_EQ(settings->datasets[1].quota, uint64_t{1} << 20);
    EXPECT_TRUE(settings->self_mounted);
    EXPECT_FALSE(parse_settings("disks:\n  - folder: /a\n", "F")->self_mounted);
}

TEST(BurstBufferSettings, AllThatIsWrongIsToldWithItsLineAndKey) {
    struct Wrong {
        const char* text;
        const char* said;
    };
    const Wrong wrong[] = {
        {"", "F:1: expected sections"},
        {"cache:\n  memory: 1MiB\n", "disks is missing"},
        {"disks:\n  - weight: 1\n", "F:2: disks: a disk without a folder"},
        {"disks:\n  - folder: relative\n", "F:2: disks.folder: 'relative': expected an absolute path"},
        {"disks:\n  - folder: /a\n  - folder: /a\n", "F:3: disks: /a is there twice"},
        {"disks:\n  - folder: /a\n    weight: -1\n", "F:3: disks.weight: '-1'"},
        {"disks:\n  - folder: /a\n    weight: nan\n", "F:3: disks.weight"},
        {"disks:\n  - folder: /a\n    capacity: 5 apples\n", "F:3: disks.capacity"},
        {"disks:\n  - folder: /a\n    capacity: 99999999999TiB\n", "F:3: disks.capacity"},
        {"disks:\n  - folder: /a\n    colour: red\n", "F:3: disks.colour: unknown key; disks has capacity, folder"},
        {"disks: /a\n", "F:1: disks: expected a list"},
        {"disks:\n  - folder: [1]\n", "F:2: disks.folder: expected one value"},
        {"disks:\n  - folder: /a\ncache:\n  read_ahead: 65\n", "F:4: cache.read_ahead: '65'"},
        {"disks:\n  - folder: /a\ncache:\n  low_watermark: 96\n", "low_watermark is above"},
        {"disks:\n  - folder: /a\ncache:\n  high_watermark: 101\n", "F:4: cache.high_watermark"},
        {"disks:\n  - folder: /a\ncontrol: yes\n", "F:3: control: expected keys and values"},
        {"disks:\n  - folder: /a\nwriteback:\n  max_age: 5\n", "F:4: writeback.paths is missing"},
        {"disks:\n  - folder: /a\nwriteback:\n  paths: /ckpt/**\n", "F:4: writeback.paths: expected a list"},
        {"writeback:\n  paths:\n    - ckpt/**\n", "F:3: writeback.paths: 'ckpt/**': expected an absolute path"},
        {"writeback:\n  paths: [/a, /a]\n", "F:2: writeback.paths: '/a': it is there twice"},
        {"writeback:\n  paths: [/a]\n  replicas: 2\n", "F:3: writeback.replicas: '2': expected 1"},
        {"writeback:\n  paths: [/a]\n  max_age: 0\n", "F:3: writeback.max_age: '0'"},
        {"writeback:\n  paths: [/a]\n  max_dirty: 10\n", "F:3: writeback.max_dirty: '10': expected a size"},
        {"writeback:\n  paths: [/a]\n  drain_rate: fast\n", "F:3: writeback.drain_rate: 'fast'"},
        {"writeback:\n  paths: [/a]\n  shutdown: now\n", "F:3: writeback.shutdown: 'now': expected drain or keep"},
        {"writeback:\n  paths: [/a]\n  path: /b\n", "F:3: writeback.path: unknown key"},
        {"discs:\n", "F:1: discs: unknown section"},
        {"writeback:\n  paths: [/a]\n  drain_share: 0\n", "F:3: writeback.drain_share: '0'"},
        {"node:\n  self_mounted: maybe\n", "F:2: node.self_mounted: 'maybe': expected true or false"},
        {"datasets: /a\n", "F:1: datasets: expected a list"},
        {"datasets:\n  - path: /a/**\n", "F:2: datasets: a dataset needs a path and a quota"},
        {"datasets:\n  - path: /a\n    quota: 1GiB\n  - path: /a\n    quota: 1GiB\n",
         "F:4: datasets: /a is there twice"},
        {"disks: [\n", "F:"},
    };
    for (const Wrong& one : wrong) {
        Result<Settings> settings = parse_settings(one.text, "F");
        ASSERT_FALSE(settings.ok()) << one.text;
        EXPECT_EQ(settings.status().code(), Code::config);
        EXPECT_NE(settings.status().message().find(one.said), std::string::npos)
            << one.text << "said: " << settings.status().message();
    }
    EXPECT_EQ(load_settings("/no/such/file").status().errno_value(), ENOENT);
}

}  // namespace
}  // namespace fabric::node
