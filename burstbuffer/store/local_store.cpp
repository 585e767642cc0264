#include "burstbuffer/store/local_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <string_view>
#include <vector>

#include "burstbuffer/store/store_metrics.h"
#include "common/crc32c.h"
#include "common/fault.h"
#include "common/log.h"

namespace fabric::store {

namespace {

constexpr size_t block = Place::block_size;

bool aligned(std::span<const char> data) {
    return reinterpret_cast<uintptr_t>(data.data()) % block == 0 && data.size() % block == 0;
}

void sum_up(std::span<const char> data, ChunkRecord& record) {
    for (size_t i = 0, at = 0; at < data.size(); ++i, at += ChunkRecord::checksum_unit) {
        record.checksums[i] = crc32c(data.data() + at, std::min(ChunkRecord::checksum_unit, data.size() - at));
    }
}

Status check(std::span<const LocalStore::Entry> entries) {
    for (const LocalStore::Entry& entry : entries) {
        if (entry.data.empty() || entry.data.size() > ChunkKey::chunk_size) {
            return Status::invalid(fmt::format("store: a chunk of {} bytes", entry.data.size()));
        }
    }
    return {};
}

}  // namespace

LocalStore::LocalStore(const StoreOptions& options, io::Engine& engine, io::BufferPool& pool)
    : pool_(pool),
      folder_(options.folder),
      name_((std::filesystem::path(options.folder) / "").parent_path().filename()),
      on_failure_(options.on_failure),
      transfers_(engine, name_) {}

int LocalStore::fault(const char* point) const {
    if (int error = fault::hit(point)) return error;
    if (!fault::armed()) return 0;
    return fault::hit(fmt::format("{}.{}", point, name_));
}

Status LocalStore::told(Status status) const {
    if (!status.ok() && on_failure_) on_failure_(status);
    return status;
}

Status LocalStore::not_answering() const {
    return {Code::io, EIO, fmt::format("disk {} does not answer; see the kernel's log for it, or replace it", folder_)};
}

Result<std::unique_ptr<LocalStore>> LocalStore::open(const StoreOptions& options, io::Engine& engine,
                                                     io::BufferPool& pool) {
    std::unique_ptr<LocalStore> store(new LocalStore(options, engine, pool));
    Result<UniqueFd> lock = lock_folder(options.folder);
    if (!lock.ok()) return lock.status();
    store->lock_ = std::move(lock).value();
    Result<Format> format = open_format(options.folder, options.segment_size);
    if (!format.ok()) return format.status();
    store->format_ = *format;
    Result<std::unique_ptr<index::Index>> opened = index::Index::open(options.folder + "/index", options.index);
    if (!opened.ok()) return opened.status();
    store->index_ = std::move(opened).value();
    Result<std::map<uint32_t, SegmentUse>> uses = store->index_->segments();
    if (!uses.ok()) return uses.status();
    std::map<uint32_t, Segments::Known> known;
    for (const auto& [number, use] : *uses) {
        Result<uint32_t> end = store->index_->end_of(number);
        if (!end.ok()) return end.status();
        known[number] = {use, *end};
    }
    Result<std::unique_ptr<Segments>> segments =
        Segments::open(options.folder + "/segments",
                       {format->segment_size, options.capacity, options.reserve, options.spare_segments}, known);
    if (!segments.ok()) return segments.status();
    store->segments_ = std::move(segments).value();
    Result<uint64_t> last = store->index_->last_dirty();
    if (!last.ok()) return last.status();
    store->sequence_ = *last;
    return store;
}

LocalStore::~LocalStore() = default;

std::mutex& LocalStore::key_mutex(const ChunkKey& key) {
    return key_mutexes_[std::hash<std::string_view>()(key.encode()) % key_mutex_count];
}

std::vector<std::unique_lock<std::mutex>> LocalStore::lock_keys(std::span<const Entry> entries) {
    std::bitset<key_mutex_count> wanted;
    for (const Entry& entry : entries) wanted.set(static_cast<size_t>(&key_mutex(entry.key) - key_mutexes_.data()));
    std::vector<std::unique_lock<std::mutex>> locks;
    for (size_t i = 0; i < key_mutex_count; ++i) {
        if (wanted[i]) locks.emplace_back(key_mutexes_[i]);
    }
    return locks;
}

Status LocalStore::put(std::span<const Entry> entries, Kind kind, const Where& where) {
    FABRIC_RETURN_IF_ERROR(check(entries));
    if (entries.empty()) return {};
    uint32_t blocks = 0;
    std::vector<ChunkRecord> records(entries.size());
    for (size_t i = 0; i < entries.size(); ++i) {
        records[i].length = static_cast<uint32_t>(entries[i].data.size());
        records[i].place.block = blocks;
        records[i].lifetime = where.lifetime;
        records[i].lifetime.dataset = entries[i].dataset;
        blocks += records[i].blocks();
        if (kind == Kind::dirty) records[i].dirty = sequence_.fetch_add(1) + 1;
    }
    Result<Place> place = segments_->allocate(blocks, where.stream);
    if (!place.ok()) return told(place.status());
    for (ChunkRecord& record : records) record.place = {place->segment, place->block + record.place.block};
    Status status = write(*place, entries, blocks, records);
    if (status.ok() && kind == Kind::dirty) status = sync(place->segment);
    if (status.ok()) status = publish(entries, records, kind == Kind::dirty);
    segments_->settle(*place);
    return told(std::move(status));
}

Status LocalStore::sync(uint32_t segment) {
    Result<int> descriptor = segments_->descriptor(segment);
    if (!descriptor.ok()) return descriptor.status();
    InFlight::Guard guard(in_flight_);
    if (int error = fault("store.sync")) return Status::from_errno(error, "store: fdatasync of a segment");
    if (hung()) return not_answering();
    Transfer& transfer = transfers_.take();
    transfer.op = io::Op::fdatasync;
    transfer.fd = *descriptor;
    transfer.point = "store.sync";
    Status status = transfers_.run(transfer, "store: fdatasync of a segment");
    return status.errno_value() == ETIMEDOUT ? not_answering() : status;
}

Status LocalStore::write(const Place& place, std::span<const Entry> entries, uint32_t blocks,
                         std::span<ChunkRecord> records) {
    for (size_t i = 0; i < entries.size(); ++i) sum_up(entries[i].data, records[i]);
    std::vector<iovec> parts;
    io::LentBuffer buffer;
    size_t total = size_t{blocks} * block;
    if (std::ranges::all_of(entries, [](const Entry& entry) { return aligned(entry.data); })) {
        for (const Entry& entry : entries) parts.push_back({const_cast<char*>(entry.data.data()), entry.data.size()});
    } else {
        buffer.reset(pool_.try_take(total));
        if (buffer == nullptr) {
            return Status(Code::unavailable, ENOBUFS, fmt::format("store: no buffer of {} bytes for writing", total));
        }
        char* at = buffer->data();
        for (const Entry& entry : entries) {
            size_t padded = (entry.data.size() + block - 1) / block * block;
            memcpy(at, entry.data.data(), entry.data.size());
            memset(at + entry.data.size(), 0, padded - entry.data.size());
            at += padded;
            metrics().bytes_copied.add(static_cast<int64_t>(entry.data.size()));
        }
        parts.push_back({buffer->data(), total});
    }
    return write_parts(place, std::move(parts), total, std::move(buffer));
}

// Should it be left, the disk may still read the caller's memory, whatever that is used for by then, and write it to
// the place: so nobody else gets the place before the disk has answered, and no record ever tells of it.
Status LocalStore::write_parts(const Place& place, std::vector<iovec> parts, size_t total, io::LentBuffer buffer) {
    Result<int> descriptor = segments_->descriptor(place.segment);
    if (!descriptor.ok()) return descriptor.status();
    InFlight::Guard guard(in_flight_);
    if (int error = fault("store.write")) return Status::from_errno(error, "store: writing a segment");
    if (hung()) return not_answering();
    Transfer& transfer = transfers_.take();
    transfer.op = io::Op::write;
    transfer.fd = *descriptor;
    transfer.offset = place.offset();
    transfer.length = total;
    transfer.parts = std::move(parts);
    transfer.alignment = block;
    transfer.point = "store.write";
    transfer.buffer = std::move(buffer);
    segments_->keep(place);
    transfer.keeps = std::shared_ptr<void>(nullptr, [this, place](void*) { segments_->settle(place); });
    Status status = transfers_.run(transfer, "store: writing a segment");
    if (status.errno_value() == ETIMEDOUT) return not_answering();
    FABRIC_RETURN_IF_ERROR(status);
    metrics().bytes_written.add(static_cast<int64_t>(total));
    return {};
}

Status LocalStore::publish(std::span<const Entry> entries, std::span<const ChunkRecord> records, bool durable) {
    if (hung()) return not_answering();
    InFlight::Guard guard(in_flight_);
    auto locks = lock_keys(entries);
    index::Index::Change change;
    std::map<uint32_t, SegmentUse> added, removed;
    for (size_t i = 0; i < entries.size(); ++i) {
        Result<std::optional<ChunkRecord>> old = index_->find(entries[i].key);
        // Bytes that cannot be read as a record are replaced all the same; fsck finds what they took up.
        if (!old.ok() && old.status().code() != Code::corrupt) return old.status();
        if (old.ok() && old->has_value()) {
            change.remove(entries[i].key, **old);
            removed[(*old)->place.segment] += -(*old)->use();
            durable = durable || (*old)->dirty != 0;
        }
        change.put(entries[i].key, records[i]);
        added[records[i].place.segment] += records[i].use();
    }
    if (int error = fault("store.publish")) return Status::from_errno(error, "store: publishing");
    FABRIC_RETURN_IF_ERROR(index_->apply(change, durable));
    for (const auto& [segment, use] : added) segments_->use(segment, use);
    for (const auto& [segment, use] : removed) segments_->use(segment, use);
    fault::hit("store.published");  // a place to be killed at
    return {};
}

// Under the key's mutex. A dirty record's end is durable before its room can be reused: else a power cut would bring
// the record back, and other bytes in its place.
Status LocalStore::replace(const ChunkKey& key, const ChunkRecord& old, const std::optional<ChunkRecord>& by) {
    InFlight::Guard guard(in_flight_);
    index::Index::Change change;
    change.remove(key, old);
    if (by) change.put(key, *by);
    FABRIC_RETURN_IF_ERROR(index_->apply(change, old.dirty != 0));
    SegmentUse difference = -old.use();
    if (by) difference += by->use();
    segments_->use(old.place.segment, difference);
    return {};
}

Status LocalStore::drop(const ChunkKey& key) {
    std::lock_guard lock(key_mutex(key));
    Result<std::optional<ChunkRecord>> old = index_->find(key);
    if (!old.ok()) return old.status();
    return old->has_value() ? replace(key, **old, std::nullopt) : Status();
}

Status LocalStore::drop_file(const fs::FileId& file) {
    std::vector<ChunkKey> keys;
    FABRIC_RETURN_IF_ERROR(index_->visit_chunks(index::key_prefix(file), [&](const ChunkKey& key, const ChunkRecord&) {
        keys.push_back(key);
        return true;
    }));
    for (const ChunkKey& key : keys) FABRIC_RETURN_IF_ERROR(drop(key));
    return {};
}

Result<bool> LocalStore::mark_clean(const ChunkKey& key, uint64_t sequence) {
    std::lock_guard lock(key_mutex(key));
    Result<std::optional<ChunkRecord>> old = index_->find(key);
    if (!old.ok()) return old.status();
    if (!old->has_value() || (*old)->dirty != sequence || sequence == 0) return false;
    ChunkRecord clean = **old;
    clean.dirty = 0;
    FABRIC_RETURN_IF_ERROR(replace(key, **old, clean));
    return true;
}

Result<bool> LocalStore::set_lifetime(const ChunkKey& key, const index::Lifetime& lifetime) {
    std::lock_guard lock(key_mutex(key));
    Result<std::optional<ChunkRecord>> old = index_->find(key);
    if (!old.ok()) return old.status();
    if (!old->has_value()) return false;
    ChunkRecord changed = **old;
    changed.lifetime = lifetime;
    changed.lifetime.dataset = (*old)->lifetime.dataset;
    FABRIC_RETURN_IF_ERROR(replace(key, **old, changed));
    return true;
}

void LocalStore::forget_damaged(const ChunkKey& key, const ChunkRecord& record) {
    if (record.dirty != 0) {
        log::error("store: segment {} block {}: bytes that only this store has are damaged; the record stays",
                   record.place.segment, record.place.block);
        return;
    }
    std::lock_guard lock(key_mutex(key));
    Result<std::optional<ChunkRecord>> now = index_->find(key);
    if (!now.ok() || !now->has_value() || **now != record) return;
    log::warn("store: segment {} block {}: a cached chunk is damaged and dropped", record.place.segment,
              record.place.block);
    if (Status status = replace(key, record, std::nullopt); !status.ok()) {
        log::error("store: a damaged chunk could not be dropped: {}", status.message());
    }
}

}  // namespace fabric::store
