// Small chunks that are asked for often, in memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "burstbuffer/index/chunk_key.h"

namespace fabric::cache {

// Thread safe. First in, first out, but what was used since it came in goes to the end once more.
class MemoryTier {
  public:
    // A chunk larger than this is not taken, in bytes.
    static constexpr size_t largest = size_t{64} << 10;

    // Bytes of data, and of what names it; 0: it takes nothing.
    explicit MemoryTier(size_t capacity) : shard_capacity_(capacity / shard_count) {}

    using Data = std::shared_ptr<const std::string>;
    // Null: it is not there. What it points to stays for as long as it is held.
    Data find(const index::ChunkKey& key, uint64_t hash);
    void put(const index::ChunkKey& key, uint64_t hash, std::string_view data);
    // All versions of a file: those with this beginning of their keys. It looks at every entry.
    void drop_file(const fs::FileId& file);
    size_t bytes() const;

  private:
    static constexpr size_t shard_count = 16;
    static constexpr size_t overhead = 256;  // of an entry, about
    struct Entry {
        index::ChunkKey key;
        Data data;
        bool used = false;
    };
    struct Shard {
        mutable std::mutex mutex;
        std::unordered_map<uint64_t, Entry> entries;  // by hash: one of two with the same hash is not held
        std::deque<uint64_t> order;                   // may name some that are gone
        size_t bytes = 0;
    };
    Shard& shard(uint64_t hash) { return shards_[(hash >> 32) % shard_count]; }
    static void make_room(Shard& shard, size_t capacity);

    const size_t shard_capacity_;
    std::array<Shard, shard_count> shards_;
};

}  // namespace fabric::cache
