// Moving live records out of a segment, so that it can be reused.
#include <algorithm>
#include <cstring>
#include <map>

#include "burstbuffer/store/local_store.h"
#include "burstbuffer/store/store_metrics.h"
#include "common/crc32c.h"
#include "common/fault.h"

namespace fabric::store {

namespace {

constexpr size_t most = size_t{4} << 20;

bool matches(const ChunkRecord& record, const char* bytes) {
    for (size_t i = 0, at = 0; at < record.length; ++i, at += ChunkRecord::checksum_unit) {
        size_t size = std::min<size_t>(ChunkRecord::checksum_unit, record.length - at);
        if (crc32c(bytes + at, size) != record.checksums[i]) return false;
    }
    return true;
}

}  // namespace

// Whole blocks. False: it was damaged, and is dropped.
Result<bool> LocalStore::read_whole(const ChunkKey& key, const ChunkRecord& record, const SharedBuffer& buffer,
                                    size_t at) {
    Result<int> descriptor = segments_->descriptor(record.place.segment);
    if (!descriptor.ok()) return descriptor.status();
    if (hung()) return not_answering();
    char* to = buffer->data() + at;
    Transfer& transfer = transfers_.take();
    transfer.op = io::Op::read;
    transfer.fd = *descriptor;
    transfer.offset = record.place.offset();
    transfer.length = size_t{record.blocks()} * Place::block_size;
    transfer.parts.push_back({to, transfer.length});
    transfer.alignment = Place::block_size;
    transfer.point = "store.read";
    transfer.keeps = buffer;
    InFlight::Guard guard(in_flight_);
    Status status = transfers_.run(transfer, "store: reading a segment");
    if (status.errno_value() == ETIMEDOUT) return not_answering();
    if (status.ok() && matches(record, to)) return true;
    if (status.ok()) metrics().damaged.add(1);
    forget_damaged(key, record);
    return false;
}

Result<LocalStore::Moving> LocalStore::gather(std::span<const ChunkKey> keys, const SharedBuffer& buffer) {
    Moving moving;
    size_t used = 0;
    for (const ChunkKey& key : keys) {
        Result<std::optional<ChunkRecord>> found = index_->find(key);
        if (!found.ok()) return found.status();
        if (!found->has_value() || (*found)->dirty != 0) continue;
        const ChunkRecord& record = **found;
        size_t size = size_t{record.blocks()} * Place::block_size;
        if (used + size > most) return Status::invalid("store: too much to move at once");
        Result<bool> read = read_whole(key, record, buffer, used);
        if (!read.ok()) return read.status();
        if (!*read) continue;
        moving.entries.push_back({key, {buffer->data() + used, record.length}});
        moving.from.push_back(record);
        used += size;
    }
    return moving;
}

Result<size_t> LocalStore::publish_moved(const Moving& moving, std::span<const ChunkRecord> to) {
    auto locks = lock_keys(moving.entries);
    index::Index::Change change;
    std::map<uint32_t, SegmentUse> uses;
    size_t moved = 0;
    for (size_t i = 0; i < to.size(); ++i) {
        Result<std::optional<ChunkRecord>> now = index_->find(moving.entries[i].key);
        if (!now.ok()) return now.status();
        if (!now->has_value() || **now != moving.from[i]) continue;
        change.remove(moving.entries[i].key, moving.from[i]);
        change.put(moving.entries[i].key, to[i]);
        uses[moving.from[i].place.segment] += -moving.from[i].use();
        uses[to[i].place.segment] += to[i].use();
        ++moved;
    }
    if (int error = fault("store.move")) return Status::from_errno(error, "store: publishing what was moved");
    FABRIC_RETURN_IF_ERROR(index_->apply(change, false));
    fault::hit("store.moved");  // a place to be killed at
    for (const auto& [segment, use] : uses) segments_->use(segment, use);
    return moved;
}

Result<size_t> LocalStore::relocate(std::span<const ChunkKey> keys) {
    SharedBuffer buffer = io::LentBuffer(pool_.try_take(most));
    if (buffer == nullptr) return Status(Code::unavailable, ENOBUFS, "store: no buffer for moving records");
    // What is read here stays where it is until it is read.
    Grace::Token token = segments_->grace().enter();
    Result<Moving> moving = gather(keys, buffer);
    Grace::leave(token);
    if (!moving.ok()) return told(moving.status());
    if (moving->entries.empty()) return size_t{0};
    std::vector<ChunkRecord> to = moving->from;
    uint32_t blocks = 0;
    for (const ChunkRecord& record : to) blocks += record.blocks();
    Result<Place> place = segments_->allocate(blocks, Stream::kept, Segments::Room::all);
    if (!place.ok()) return place.status();
    uint32_t at = place->block;
    for (ChunkRecord& record : to) {
        record.place = {place->segment, at};
        at += record.blocks();
    }
    size_t total = size_t{blocks} * Place::block_size;
    Status status = write_parts(*place, {{buffer->data(), total}}, total, nullptr);
    Result<size_t> moved = status.ok() ? publish_moved(*moving, to) : Result<size_t>(status);
    segments_->settle(*place);
    if (!moved.ok()) return told(moved.status());
    metrics().bytes_moved.add(static_cast<int64_t>(total));
    return moved;
}

}  // namespace fabric::store
