// The name of a piece of a file's data, and how it stands in the index.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/fs/file_id.h"
#include "common/result.h"

namespace fabric::index {

// What a file was like when its bytes were read: a file that is overwritten has another version, so old and new bytes
// never meet under one key. Times are nanoseconds since 1970.
struct FileVersion {
    uint64_t size = 0;
    int64_t mtime = 0;
    int64_t ctime = 0;

    auto operator<=>(const FileVersion&) const = default;
};

struct ChunkKey {
    static constexpr size_t chunk_size = size_t{1} << 20;

    fs::FileId file;
    FileVersion version;
    uint32_t number = 0;  // of chunk_size bytes each, from the start of the file

    bool operator==(const ChunkKey&) const = default;

    // Keys of one file stand together, of one version in order of the chunks.
    std::string encode() const;
    // EINVAL for bytes that are no key.
    static Result<ChunkKey> decode(std::string_view bytes);
};

// What all keys of a file, or of one version of it, begin with. No key of another file begins with it.
std::string key_prefix(const fs::FileId& file);
std::string key_prefix(const fs::FileId& file, const FileVersion& version);

}  // namespace fabric::index
