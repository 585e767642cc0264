// One read of a range of a file, of one version, through the cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "burstbuffer/cache/recency.h"
#include "burstbuffer/index/chunk_key.h"
#include "burstbuffer/store/read.h"
#include "common/result.h"

namespace fabric::cache {

class Cache;

// Embedded in the caller's own object; it and the memory at `to` must stay until finished() is called, once, by the
// thread that started it or by another, which it must not block.
class Read {
  public:
    Read() { part_.owner = this; }
    Read(const Read&) = delete;
    Read& operator=(const Read&) = delete;

    // Set by the caller.
    std::optional<fs::FileId> file;
    index::FileVersion version;  // as the backing store tells it now
    uint64_t offset = 0;         // bytes
    size_t size = 0;             // bytes; what is behind the end of the file is not read
    char* to = nullptr;          // aligned to 4 KiB: bytes of chunks larger than 64 KiB are not copied
    void (*finished)(Read&) = nullptr;
    // As store::Read's: the memory at `to` may stay with a disk that does not answer.
    void (*release)(void*) = nullptr;
    void* released = nullptr;

    enum class Outcome {
        served,  // `bytes` are at `to`
        passed,  // the cache does not have all of it, nor wants to: the caller reads the backing store
        failed,  // bytes that the backing store does not have cannot be read: `status`
    };
    Outcome outcome = Outcome::passed;
    size_t bytes = 0;
    Status status;
    bool memory_left = false;  // the memory at `to` is still the disk's: another is to be taken

  private:
    friend class Cache;
    friend class Flights;
    struct Part : store::Read {
        cache::Read* owner = nullptr;
    };

    Cache* cache_ = nullptr;
    Part part_;          // the chunk that it is at
    uint64_t hash_ = 0;  // of its key
    std::optional<Recency::Seen> seen_;
    size_t wanted_ = 0;  // bytes in all
    size_t done_ = 0;
    bool sequential_ = false;
    Read* next_waiting_ = nullptr;
};

}  // namespace fabric::cache
