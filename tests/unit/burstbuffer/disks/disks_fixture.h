// Several disks in one folder of a test's own, named d0, d1, ...
#pragma once

#include "burstbuffer/disks/disks.h"
#include "tests/unit/burstbuffer/store/store_fixture.h"

namespace fabric::disks {

using store::Memory;
using store::mib;
using store::random_bytes;
using store::Read;

class DisksFixture {
  public:
    explicit DisksFixture(size_t count = 3) {
        auto started = io::Engine::start({.lanes = 2});
        EXPECT_TRUE(started.ok());
        engine = std::move(started).value();
        for (size_t i = 0; i < count; ++i) add(1);
    }
    ~DisksFixture() {
        EXPECT_TRUE(fault::arm("").ok());
        disks.reset();
        EXPECT_EQ(pool.lent(), 0U);
    }

    void add(double weight) {
        std::string path = folder / ("d" + std::to_string(options.size()));
        std::filesystem::create_directory(path);
        DiskOptions one;
        one.folder = path;
        one.weight = weight;
        one.reserve = 0;
        one.segment_size = 4 * mib;
        one.health = {.failures = 2,
                      .within = Duration(60'000),
                      .first_rest = Duration(50),
                      .longest_rest = Duration(100),
                      .rests = 4,
                      .well_after = Duration(60'000)};
        options.push_back(one);
    }
    Status try_open() {
        disks.reset();
        auto opened = Disks::open(options, *engine, pool);
        if (opened.ok()) disks = std::move(opened).value();
        return opened.status();
    }
    void open() {
        Status status = try_open();
        ASSERT_TRUE(status.ok()) << status.message();
    }
    bool put(const ChunkKey& key, std::string_view data) {
        Entry entry{key, {data.data(), data.size()}};
        return disks->put_clean({&entry, 1}) == 1;
    }
    Status put_dirty(const ChunkKey& key, std::string_view data) {
        Entry entry{key, {data.data(), data.size()}};
        return disks->put_dirty({&entry, 1});
    }

    // What is there, or nothing: a miss, or a record that could not be read.
    std::optional<std::string> read(const ChunkKey& key) {
        struct Awaited : Read {
            std::latch done{1};
        } read;
        Memory memory(mib);
        read.key = key;
        read.size = mib;
        read.to = memory.data();
        read.finished = [](Read& finished) { static_cast<Awaited&>(finished).done.count_down(); };
        if (!disks->start(read)) return std::nullopt;
        read.done.wait();
        if (read.outcome != Read::Outcome::hit) return std::nullopt;
        return std::string(memory.data(), read.bytes);
    }

    // Waits for an event that another thread brings about.
    template <typename Condition>
    static bool eventually(Condition condition) {
        for (int i = 0; i < 3000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
        return condition();
    }

    Folder folder;
    io::BufferPool pool{{.limit = 256 * mib}};
    std::unique_ptr<io::Engine> engine;
    std::vector<DiskOptions> options;
    std::unique_ptr<Disks> disks;
};

}  // namespace fabric::disks
