// What the cache holds of a file, and the wishes of who administers it.
#include <algorithm>

#include "burstbuffer/cache/cache.h"

namespace fabric::cache {

using index::ChunkKey;
using index::ChunkRecord;

size_t Cache::take(std::span<const disks::Entry> entries, const index::Lifetime& lifetime) {
    Datasets::Admitted admitted;
    if (Datasets* datasets = options_.flights.datasets) {
        admitted = datasets->admit(disks_, entries);
        entries = admitted.entries;
    }
    size_t taken = disks_.put_clean(entries, {.stream = store::Stream::kept, .lifetime = lifetime});
    for (const auto& one : evictors_) {
        if (lifetime.expires != 0) one->expects_expiry();
        one->wake();
    }
    return taken;
}

Cache::Held Cache::held(const fs::FileId& file, const index::FileVersion& version) {
    Held held;
    uint64_t chunks = (version.size + ChunkKey::chunk_size - 1) / ChunkKey::chunk_size;
    for (uint64_t number = 0; number < chunks; ++number) {
        auto found = disks_.find({file, version, static_cast<uint32_t>(number)});
        if (!found) continue;
        ++held.chunks;
        held.bytes += found->record.length;
        if (found->record.lifetime.pinned) ++held.pinned;
    }
    return held;
}

// The list is made first: a visitor changes what it walks over.
Status Cache::each_chunk(const fs::FileId& file, const Visitor& visit) {
    for (const auto& disk : disks_.all()) {
        std::vector<std::pair<ChunkKey, ChunkRecord>> found;
        store::LocalStore& store = disk->store();
        FABRIC_RETURN_IF_ERROR(
            store.index().visit_chunks(index::key_prefix(file), [&](const ChunkKey& key, const ChunkRecord& record) {
                found.emplace_back(key, record);
                return true;
            }));
        for (const auto& [key, record] : found) FABRIC_RETURN_IF_ERROR(visit(store, key, record));
    }
    return {};
}

Result<uint64_t> Cache::drop(const fs::FileId& file) {
    memory_.drop_file(file);
    return drop_from_disks(file);
}

Result<uint64_t> Cache::drop_from_disks(const fs::FileId& file) {
    uint64_t dropped = 0;
    Status status = each_chunk(file, [&](store::LocalStore& store, const ChunkKey& key, const ChunkRecord& record) {
        if (record.dirty != 0) return Status();
        ++dropped;
        return store.drop(key);
    });
    for (const auto& one : evictors_) one->wake();
    if (!status.ok()) return status;
    return dropped;
}

Result<uint64_t> Cache::set_lifetime(const fs::FileId& file, const index::Lifetime& lifetime) {
    uint64_t changed = 0;
    if (lifetime.expires != 0) {
        for (const auto& one : evictors_) one->expects_expiry();
    }
    Status status = each_chunk(file, [&](store::LocalStore& store, const ChunkKey& key, const ChunkRecord&) {
        Result<bool> there = store.set_lifetime(key, lifetime);
        if (there.ok() && *there) ++changed;
        return there.status();
    });
    if (!status.ok()) return status;
    return changed;
}

void Cache::make_room() {
    for (const auto& one : evictors_) one->wake();
}

uint64_t Cache::room() {
    uint64_t room = 0;
    for (size_t at = 0; at < evictors_.size(); ++at) {
        disks::Disk& disk = *disks_.all()[at];
        if (!disk.usable()) continue;
        store::Segments::Usage usage = disk.store().usage();
        uint64_t segment = disk.store().format().segment_size;
        auto usable = static_cast<uint64_t>(static_cast<double>(usage.capacity) * options_.eviction.low);
        usable = std::min(usable, usage.capacity - std::min(usage.capacity, 2 * segment));
        uint64_t kept = 0;
        Status status = disk.store().index().visit_chunks({}, [&](const ChunkKey&, const ChunkRecord& record) {
            if (record.lifetime.pinned || record.dirty != 0) kept += uint64_t{record.blocks()} * 4096;
            return true;
        });
        if (status.ok()) room += usable - std::min(usable, kept);
    }
    return room;
}

}  // namespace fabric::cache
