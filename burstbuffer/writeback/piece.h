// A run of bytes of a file that the backing store does not have yet, as it lies in a local store.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "burstbuffer/disks/disks.h"
#include "burstbuffer/index/chunk_key.h"
#include "burstbuffer/index/chunk_record.h"

namespace fabric::writeback {

// How it is named in the index: a key that no file's chunk has, whose "version" says what it is.
struct PieceName {
    static constexpr size_t cut_bytes = 8;  // that stand for a truncation: a record has some

    uint64_t offset = 0;  // of the file; of a truncation, the new size
    uint64_t number = 0;  // no two pieces have the same
    uint32_t rule = 0;    // hash of the rule's pattern
    bool cut = false;

    index::ChunkKey key(const fs::FileId& file) const {
        return {.file = file,
                .version = {.size = offset, .mtime = INT64_MIN + rule, .ctime = static_cast<int64_t>(number)},
                .number = cut ? 1U : 0U};
    }
    // Nothing: it is an ordinary chunk. No file is as old as 1677.
    static std::optional<PieceName> of(const index::ChunkKey& key) {
        if (key.version.mtime > INT64_MIN + int64_t{UINT32_MAX}) return std::nullopt;
        return PieceName{key.version.size, static_cast<uint64_t>(key.version.ctime),
                         static_cast<uint32_t>(key.version.mtime - INT64_MIN), key.number == 1};
    }
};

// Under WriteBack's mutex, but for what does not change: offset, cut, disk, key, and the record once it is published.
struct Piece {
    Piece(const fs::FileId& file, const PieceName& name, uint64_t length)
        : offset(name.offset), end(name.offset + length), cut(name.cut), key(name.key(file)) {}

    uint64_t offset = 0;
    uint64_t end = 0;  // of the file; a truncation brings it nearer
    bool cut = false;
    index::ChunkKey key;
    disks::Disk* disk = nullptr;
    index::ChunkRecord record;  // `dirty` is 0 until it is published
    uint64_t visible = 0;       // bytes that no newer piece covers
    bool done = false;          // its record is dropped
    std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();

    bool published() const { return record.dirty != 0; }
    uint64_t bytes_on_disk() const { return static_cast<uint64_t>(record.use().bytes); }
};
using PiecePtr = std::shared_ptr<Piece>;

}  // namespace fabric::writeback
