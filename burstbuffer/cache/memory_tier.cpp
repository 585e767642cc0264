#include "burstbuffer/cache/memory_tier.h"

namespace fabric::cache {

MemoryTier::Data MemoryTier::find(const index::ChunkKey& key, uint64_t hash) {
    if (shard_capacity_ == 0) return nullptr;
    Shard& in = shard(hash);
    std::lock_guard lock(in.mutex);
    auto found = in.entries.find(hash);
    if (found == in.entries.end() || found->second.key != key) return nullptr;
    found->second.used = true;
    return found->second.data;
}

void MemoryTier::put(const index::ChunkKey& key, uint64_t hash, std::string_view data) {
    if (data.size() > largest || data.size() + overhead > shard_capacity_) return;
    auto copy = std::make_shared<const std::string>(data);
    Shard& in = shard(hash);
    std::lock_guard lock(in.mutex);
    auto [at, added] = in.entries.try_emplace(hash, Entry{key, copy});
    if (!added) return;
    in.order.push_back(hash);
    in.bytes += data.size() + overhead;
    make_room(in, shard_capacity_);
}

void MemoryTier::make_room(Shard& in, size_t capacity) {
    while (in.bytes > capacity && !in.order.empty()) {
        uint64_t hash = in.order.front();
        in.order.pop_front();
        auto found = in.entries.find(hash);
        if (found == in.entries.end()) continue;
        if (found->second.used) {
            found->second.used = false;
            in.order.push_back(hash);
            continue;
        }
        in.bytes -= found->second.data->size() + overhead;
        in.entries.erase(found);
    }
}

void MemoryTier::drop_file(const fs::FileId& file) {
    for (Shard& in : shards_) {
        std::lock_guard lock(in.mutex);
        for (auto at = in.entries.begin(); at != in.entries.end();) {
            if (!(at->second.key.file == file)) {
                ++at;
                continue;
            }
            in.bytes -= at->second.data->size() + overhead;
            std::erase(in.order, at->first);
            at = in.entries.erase(at);
        }
    }
}

size_t MemoryTier::bytes() const {
    size_t sum = 0;
    for (const Shard& in : shards_) {
        std::lock_guard lock(in.mutex);
        sum += in.bytes;
    }
    return sum;
}

}  // namespace fabric::cache
