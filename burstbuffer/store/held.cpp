// Dirty bytes whose records their owner keeps until many are made durable together.
#include <map>
#include <set>

#include "burstbuffer/store/local_store.h"
#include "common/fault.h"

namespace fabric::store {

Result<ChunkRecord> LocalStore::hold(const Entry& entry) {
    if (entry.data.empty() || entry.data.size() > ChunkKey::chunk_size) {
        return Status::invalid("store: a piece of a wrong size");
    }
    ChunkRecord record;
    record.length = static_cast<uint32_t>(entry.data.size());
    Result<Place> place = segments_->allocate(record.blocks(), Stream::dirty);
    if (!place.ok()) return told(place.status());
    record.place = *place;
    Status status = write(*place, {&entry, 1}, record.blocks(), {&record, 1});
    if (status.ok()) return record;
    give_up(record);
    return told(std::move(status));
}

Status LocalStore::publish(std::span<const Held> held) {
    std::set<uint32_t> segments;
    for (const Held& one : held) segments.insert(one.record.place.segment);
    for (uint32_t segment : segments) {
        if (Status status = sync(segment); !status.ok()) return told(std::move(status));
    }
    index::Index::Change change;
    std::map<uint32_t, SegmentUse> added;
    for (const Held& one : held) {
        change.put(one.key, one.record);
        added[one.record.place.segment] += one.record.use();
    }
    if (hung()) return told(not_answering());
    InFlight::Guard guard(in_flight_);
    if (int error = fault("store.publish")) return told(Status::from_errno(error, "store: publishing"));
    if (Status status = index_->apply(change, true); !status.ok()) return told(std::move(status));
    for (const auto& [segment, use] : added) segments_->use(segment, use);
    for (const Held& one : held) segments_->settle(one.record.place);
    fault::hit("store.published");  // a place to be killed at
    return {};
}

Status LocalStore::drop(std::span<const Held> held) {
    index::Index::Change change;
    std::map<uint32_t, SegmentUse> removed;
    for (const Held& one : held) {
        change.remove(one.key, one.record);
        removed[one.record.place.segment] += -one.record.use();
    }
    if (hung()) return told(not_answering());
    InFlight::Guard guard(in_flight_);
    if (Status status = index_->apply(change, true); !status.ok()) return told(std::move(status));
    for (const auto& [segment, use] : removed) segments_->use(segment, use);
    return {};
}

}  // namespace fabric::store
