// The segment files of a store: which are in use, where the next record goes, what may be reused.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "burstbuffer/index/chunk_record.h"
#include "burstbuffer/index/segment_use.h"
#include "burstbuffer/store/grace.h"
#include "common/result.h"
#include "common/unique_fd.h"

namespace fabric::store {

using index::Place;
using index::SegmentUse;

// Records that are likely to go at the same time lie together, each kind in segments of its own.
enum class Stream : uint8_t {
    fresh,  // what came lately
    kept,   // what proved useful
    dirty,  // what goes once the backing store has it
};
constexpr size_t stream_count = 3;

// Thread safe.
class Segments {
  public:
    struct Limits {
        uint64_t segment_size = uint64_t{256} << 20;  // bytes, a multiple of 4096
        uint64_t capacity = 0;                        // bytes of all segments together; 0: no limit of its own
        uint64_t reserve = 0;                         // bytes that stay free on the file system
        uint32_t spare = 0;  // segments that only Room::all may take: room to move records to when all is full
    };
    // What is in use, and where its last record ends.
    struct Known {
        SegmentUse use;
        uint32_t end = 0;  // blocks
    };

    // `folder` is made if it is not there. A segment that is known to be in use and is not there is logged, and reading
    // it gives ENOENT; a file that no record lies in is reused.
    static Result<std::unique_ptr<Segments>> open(const std::string& folder, const Limits& limits,
                                                  const std::map<uint32_t, Known>& known);

    // Room for `blocks` in one piece, at most a segment's. Code::unavailable with ENOSPC when there is none, at the
    // capacity or on the file system. It is held until settle().
    enum class Room {
        but_the_spare,
        all,
    };
    Result<Place> allocate(uint32_t blocks, Stream stream = Stream::fresh, Room room = Room::but_the_spare);
    // The room was used or given up; what became live was added by use() before.
    void settle(const Place& place);
    // It is held once more, until another settle().
    void keep(const Place& place);
    // Records of a segment came or went, and the index says so durably enough.
    void use(uint32_t segment, const SegmentUse& change);

    // For O_DIRECT transfers. It stays open as long as the store.
    Result<int> descriptor(uint32_t segment) const;

    // Readers are inside it from before they look up a place until they have read it.
    Grace& grace() { return grace_; }

    struct Info {
        uint32_t number = 0;
        Stream stream = Stream::fresh;
        SegmentUse use;
    };
    // Those that are full and have records, the oldest first. The stream is not kept over a start: what was there
    // before counts as kept.
    std::vector<Info> full_ones() const;

    struct Usage {
        uint64_t allocated = 0;  // bytes of segment files
        uint64_t free = 0;       // of these, in segments without a record
        uint64_t live = 0;       // of records
        uint64_t records = 0;
        uint64_t dirty_records = 0;
        uint64_t capacity = 0;  // bytes that could be allocated, by the capacity and by the file system
    };
    Usage usage() const;
    bool has_dirty() const;

  private:
    struct Segment {
        uint32_t number = 0;
        UniqueFd file;
        SegmentUse use;
        uint32_t end = 0;  // blocks
        uint32_t pending = 0;
        bool sealed = false;
        bool free = false;
        uint64_t freed_at = 0;
        Stream stream = Stream::kept;
        uint64_t born = 0;  // in order of their first record
    };

    Segments(std::string folder, const Limits& limits);
    Status add_existing(uint32_t number, const std::map<uint32_t, Known>& known);
    void order_by_age();
    Status start_new(Stream stream, Room room);
    Result<Segment*> reuse();
    // `beside`: segments that must have room, too.
    Result<Segment*> create(uint32_t beside);
    void free_if_empty(Segment& segment);
    std::string path_of(uint32_t number) const;

    const std::string folder_;
    const Limits limits_;
    Grace grace_;
    mutable std::shared_mutex mutex_;
    std::map<uint32_t, Segment> segments_;
    std::deque<uint32_t> free_;  // oldest first
    std::array<Segment*, stream_count> active_{};
    uint64_t births_ = 0;
};

}  // namespace fabric::store
