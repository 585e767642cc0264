// Where the bytes of a chunk lie in a store's segments, and what they sum up to.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "burstbuffer/index/chunk_key.h"
#include "burstbuffer/index/segment_use.h"
#include "common/result.h"

namespace fabric::index {

// A place in a segment file, in blocks of 4 KiB.
struct Place {
    static constexpr size_t block_size = 4096;

    uint32_t segment = 0;
    uint32_t block = 0;

    uint64_t offset() const { return uint64_t{block} * block_size; }
    auto operator<=>(const Place&) const = default;
    std::string encode() const;
    static Result<Place> decode(std::string_view bytes);
};

// How long a record is to stay, beside what its use earns it.
struct Lifetime {
    bool pinned = false;   // not evicted, until it expires
    uint32_t expires = 0;  // seconds since 1970; 0: never. From then on it is a miss, and goes first
    uint32_t dataset = 0;  // whose quota it counts for; 0: none

    bool operator==(const Lifetime&) const = default;
    bool over(int64_t now) const { return expires != 0 && now >= int64_t{expires}; }
};

struct ChunkRecord {
    // Bytes that one checksum covers; the last one of a record covers what is left.
    static constexpr size_t checksum_unit = size_t{64} << 10;
    static constexpr size_t max_checksums = ChunkKey::chunk_size / checksum_unit;

    Place place;
    uint32_t length = 0;  // bytes, 1 to ChunkKey::chunk_size
    // Not 0: the backing store does not have these bytes yet; the order in which they were acknowledged.
    uint64_t dirty = 0;
    std::array<uint32_t, max_checksums> checksums{};  // CRC32C
    Lifetime lifetime = {};

    bool operator==(const ChunkRecord&) const = default;
    size_t checksum_count() const { return (length + checksum_unit - 1) / checksum_unit; }
    // What it takes up in its segment.
    uint32_t blocks() const { return static_cast<uint32_t>((length + Place::block_size - 1) / Place::block_size); }
    SegmentUse use() const { return {static_cast<int64_t>(blocks() * Place::block_size), 1, dirty != 0 ? 1 : 0}; }

    std::string encode() const;
    // EINVAL for bytes that are no record. A lifetime that is not the ordinary one stands behind the checksums, and the
    // length's highest bit tells of it: so are stores of format 1 read as they are.
    static Result<ChunkRecord> decode(std::string_view bytes);
};

}  // namespace fabric::index
