// A store on a disk, with small segments, for tests.
#pragma once

#include <gtest/gtest.h>

#include <latch>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "burstbuffer/store/local_store.h"
#include "burstbuffer/store/read.h"
#include "common/fault.h"
#include "tests/unit/burstbuffer/folder.h"
#include "tests/unit/burstbuffer/sample.h"

namespace fabric::store {

constexpr size_t mib = size_t{1} << 20;

inline std::string random_bytes(size_t length, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::string bytes(length, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    return bytes;
}

// Memory aligned to a page, or to so many bytes behind one.
class Memory {
  public:
    explicit Memory(size_t size, size_t shift = 0) : bytes_(size + shift + 4096), shift_(shift) {}
    char* data() {
        return reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(bytes_.data()) + 4095) & ~uintptr_t{4095}) + shift_;
    }

  private:
    std::vector<char> bytes_;
    size_t shift_;
};

class StoreFixture {
  public:
    // In a folder of its own, or in one that is there already and stays.
    StoreFixture() { start(); }
    explicit StoreFixture(const std::string& existing) : folder(existing) { start(); }
    ~StoreFixture() {
        EXPECT_TRUE(fault::arm("").ok());
        store.reset();
        EXPECT_EQ(pool_.lent(), 0U);
    }

    Status try_open(uint64_t capacity = 0) {
        store.reset();
        StoreOptions options{
            .folder = folder.path(), .capacity = capacity, .reserve = 0, .segment_size = 4 * mib, .index = {}};
        auto opened = LocalStore::open(options, *engine_, pool_);
        if (opened.ok()) store = std::move(opened).value();
        return opened.status();
    }
    void open(uint64_t capacity = 0) {
        Status status = try_open(capacity);
        ASSERT_TRUE(status.ok()) << status.message();
    }
    Status put(const ChunkKey& key, std::string_view data, LocalStore::Kind kind = LocalStore::Kind::clean) {
        LocalStore::Entry entry{key, {data.data(), data.size()}};
        return store->put({&entry, 1}, kind);
    }

    struct Answer {
        Read::Outcome outcome;
        std::string bytes;
        Status status;
    };
    Answer read(const ChunkKey& key, size_t offset = 0, size_t size = mib, size_t shift = 0) {
        struct Awaited : Read {
            std::latch done{1};
        } read;
        Memory memory(size, shift);
        read.key = key;
        read.offset = offset;
        read.size = size;
        read.to = memory.data();
        read.finished = [](Read& finished) { static_cast<Awaited&>(finished).done.count_down(); };
        store->start(read);
        read.done.wait();
        return {read.outcome, std::string(memory.data(), read.bytes), read.status};
    }

    Folder folder;
    std::unique_ptr<LocalStore> store;

  private:
    void start() {
        auto engine = io::Engine::start({.lanes = 2});
        ASSERT_TRUE(engine.ok());
        engine_ = std::move(engine).value();
    }

    io::BufferPool pool_{{.limit = 64 * mib}};
    std::unique_ptr<io::Engine> engine_;
};

}  // namespace fabric::store
