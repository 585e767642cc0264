// One read of a chunk, or of a part of it, from a local store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "burstbuffer/index/chunk_record.h"
#include "burstbuffer/store/grace.h"
#include "burstbuffer/store/in_flight.h"
#include "common/io/buffer_pool.h"
#include "common/result.h"

namespace fabric::store {

class LocalStore;
class Transfer;

// Embedded in the caller's own object; it and the memory at `to` must stay until finished() is called, once, by the
// thread that started it or by a lane's. Nothing is allocated but for a key. Every checksum that covers a byte of the
// range is compared before finished(); with an error, what lies at `to` is undefined.
class Read {
  public:
    Read() = default;
    Read(const Read&) = delete;
    Read& operator=(const Read&) = delete;

    // Set by the caller. Where `to`, `offset` and both ends are aligned to 4 KiB the disk writes straight to `to`.
    std::optional<index::ChunkKey> key;
    size_t offset = 0;  // in the chunk, bytes
    size_t size = 0;    // bytes; what is behind the record's end is not read
    char* to = nullptr;
    void (*finished)(Read&) = nullptr;
    // Where it lies, from one who knows (LocalStore::hold), with the token that keeps it there; else the index is
    // asked.
    std::optional<index::ChunkRecord> record;
    Grace::Token token;
    // The memory at `to` may stay with a disk that does not answer: then finished() comes with `memory_left`, and
    // release(released) when the disk has let go of it. Without, what goes straight there waits as long as the disk
    // takes.
    void (*release)(void*) = nullptr;
    void* released = nullptr;

    enum class Outcome {
        hit,      // `bytes` are at `to`
        miss,     // the store has no such chunk
        damaged,  // it had, and the bytes were wrong or unreadable; read the backing store. The record is gone
        failed,   // `status` says why: the disk, or dirty bytes that are damaged (EIO, and the record stays)
    };
    Outcome outcome = Outcome::miss;
    size_t bytes = 0;
    Status status;
    bool memory_left = false;  // the memory at `to` is still the disk's
    bool only_here = false;    // nobody else has these bytes

  private:
    friend class LocalStore;
    // What lies in front of and behind the part that goes straight to `to`: at most a checksum unit and a block each,
    // or all of it.
    struct Bounce : io::BufferPool::Ticket {
        Read* read = nullptr;
    };

    bool begin(LocalStore& store);
    void layout();
    void submit();
    void completed();
    void leave();
    void refuse(LocalStore& store);
    bool checksums_match() const;
    void copy_out();
    void end(Outcome with);

    LocalStore* store_ = nullptr;
    Grace::Token token_;
    InFlight::Slot slot_ = nullptr;
    index::ChunkRecord record_;
    Bounce bounce_;
    int fd_ = -1;
    size_t head_ = 0;     // bytes of the bounce buffer in front of the direct part
    size_t direct_ = 0;   // bytes straight to `to`
    size_t tail_ = 0;     // bytes of the bounce buffer behind it
    uint64_t first_ = 0;  // where the transfer begins in the record, a whole number of checksum units
    Transfer* transfer_ = nullptr;
};

}  // namespace fabric::store
