// Where the cache gets what it does not have: the backing file system here, another node of the pool elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "burstbuffer/index/chunk_key.h"
#include "common/result.h"

namespace fabric::cache {

class Backing {
  public:
    // Embedded in the caller's object; it and the memory at `to` stay until finished() is called, once, on any thread.
    struct Fetch {
        std::optional<fs::FileId> file;
        index::FileVersion version;  // that the bytes are to be of
        uint64_t offset = 0;
        size_t size = 0;     // up to the end of the file at most
        char* to = nullptr;  // aligned to 4 KiB, as the offset is; room for `size` in whole blocks of 4 KiB
        void (*finished)(Fetch&) = nullptr;

        // All `size` bytes are there, and of this version; ESTALE: the file is of another one, or changed meanwhile.
        Status status;
    };

    virtual ~Backing() = default;
    // Returns at once. Any thread.
    virtual void start(Fetch& fetch) = 0;
};

}  // namespace fabric::cache
