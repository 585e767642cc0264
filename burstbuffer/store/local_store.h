// Chunks of files on one local disk: segment files for the bytes, an index for where they lie.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "burstbuffer/index/index.h"
#include "burstbuffer/store/format.h"
#include "burstbuffer/store/in_flight.h"
#include "burstbuffer/store/segments.h"
#include "burstbuffer/store/transfer.h"
#include "common/io/buffer_pool.h"
#include "common/io/engine.h"
#include "common/result.h"

namespace fabric::store {

using index::ChunkKey;
using index::ChunkRecord;

struct StoreOptions {
    // A folder of the store's own, on a file system with O_DIRECT. It must be there.
    std::string folder;
    // Bytes of its segments together; 0: what the file system has.
    uint64_t capacity = 0;
    // Bytes that stay free on the file system.
    uint64_t reserve = uint64_t{1} << 30;
    // Of a new store; an existing one keeps its own.
    uint64_t segment_size = uint64_t{256} << 20;
    uint32_t spare_segments = 0;  // see Segments::Limits
    index::Index::Options index;
    // Told of every failure of the disk, ENOSPC included, by the thread that met it; it must not block or call back.
    std::function<void(const Status&)> on_failure = {};
};

class Read;

// Thread safe. The engine and the pool outlive it.
class LocalStore {
  public:
    // One owner a folder: a second one, in this process or another, gets EBUSY. A damaged store is Code::corrupt.
    static Result<std::unique_ptr<LocalStore>> open(const StoreOptions& options, io::Engine& engine,
                                                    io::BufferPool& pool);
    // Nothing may be in flight.
    ~LocalStore();

    struct Entry {
        ChunkKey key;
        // 1 byte to ChunkKey::chunk_size. What is aligned to 4 KiB, in address and length, goes to disk as it lies
        // there; the rest is copied first, and counted.
        std::span<const char> data;
        uint32_t dataset = 0;  // see Lifetime
    };
    enum class Kind {
        clean,  // the backing store has these bytes: they may be lost to a power cut, and dropped at any time
        dirty,  // nobody else has them: when put() returns they survive a power cut
    };
    // Waits for the disk. The entries, a segment's size at most together, lie behind each other, and appear together or
    // not at all; no key twice. What a key had before is replaced. ENOSPC (Code::unavailable): nothing changed, the
    // caller goes without the store.
    Status put(std::span<const Entry> entries, Kind kind) { return put(entries, kind, {}); }
    struct Where {
        Stream stream = Stream::fresh;
        index::Lifetime lifetime;
    };
    Status put(std::span<const Entry> entries, Kind kind, const Where& where);

    // Dirty bytes in steps, for an owner that keeps the records itself meanwhile: write-back, which makes many of them
    // durable at once.
    struct Held {
        ChunkKey key;
        ChunkRecord record;
    };
    // Writes the bytes without waiting for their durability; nothing but the record tells of them. Their place is kept
    // until publish() or give_up(). Waits for the disk; errors as put()'s.
    Result<ChunkRecord> hold(const Entry& entry);
    void give_up(const ChunkRecord& record) { segments_->settle(record.place); }
    // One sync for each segment, then one change of the index: when it returns they survive a power cut. The owner has
    // set each record's `dirty`, no two alike, and no key was there before. An error: nothing changed.
    Status publish(std::span<const Held> held);
    // What was published; durable on return. All or none.
    Status drop(std::span<const Held> held);
    // From before a held record's place is looked at until it was read (store::Read takes it over): drop() leaves the
    // bytes where they are so long.
    Grace::Token enter() { return segments_->grace().enter(); }

    // Copies clean records, which together are at most 4 MiB, to the end of Stream::kept. One that is gone, dirty,
    // damaged (it is dropped), or changed meanwhile is passed over. How many now lie elsewhere.
    Result<size_t> relocate(std::span<const ChunkKey> keys);
    // False: there is no such chunk.
    Result<bool> set_lifetime(const ChunkKey& key, const index::Lifetime& lifetime);
    std::vector<Segments::Info> full_segments() const { return segments_->full_ones(); }

    // Returns at once, except for blocks of the index that have to be read. See Read.
    void start(Read& read);
    // As start(), but where the store has no such chunk it returns false, and finished() is not called.
    bool start_if_there(Read& read);

    // As start() does with what only a disk that hangs has: it ends with an error.
    void refuse(Read& read);

    // What is not there is no error. Dirty records are dropped too: the caller has drained them or wants them gone.
    Status drop(const ChunkKey& key);
    Status drop_file(const fs::FileId& file);
    // The backing store has what the record had as it was acknowledged under `sequence`. False: it was replaced
    // meanwhile, and is still dirty. Durable on return.
    Result<bool> mark_clean(const ChunkKey& key, uint64_t sequence);

    Result<std::optional<ChunkRecord>> find(const ChunkKey& key) const { return index_->find(key); }
    const index::Index& index() const { return *index_; }
    Segments::Usage usage() const { return segments_->usage(); }
    bool has_dirty() const { return segments_->has_dirty(); }
    // Whether a transfer has not come back for so long, see InFlight, or was left and has not come back.
    bool stuck(unsigned seconds) const { return transfers_.any_left() || in_flight_.longer_than(seconds); }
    // Ends the calls that have waited for the disk for longer than that: ETIMEDOUT. What they gave to the disk stays
    // with it until it answers.
    void leave(unsigned seconds) { transfers_.leave(seconds); }
    // The disk hangs: until it is told otherwise, nobody waits for it. Calls end with EIO at once.
    void set_hung(bool hangs) { hung_.store(hangs, std::memory_order_relaxed); }
    bool hung() const { return hung_.load(std::memory_order_relaxed); }
    const Format& format() const { return format_; }

  private:
    friend class Read;

    LocalStore(const StoreOptions& options, io::Engine& engine, io::BufferPool& pool);
    // The fault point of all stores, and this one's own: "store.read" and "store.read.NAME", its folder's last name.
    int fault(const char* point) const;
    Status told(Status status) const;
    Status not_answering() const;
    Status write(const Place& place, std::span<const Entry> entries, uint32_t blocks, std::span<ChunkRecord> records);
    // Memory aligned to 4 KiB, whole blocks; `buffer`, if there is one, holds it.
    Status write_parts(const Place& place, std::vector<iovec> parts, size_t total, io::LentBuffer buffer);
    Status sync(uint32_t segment);
    Status publish(std::span<const Entry> entries, std::span<const ChunkRecord> records, bool durable);
    // What `relocate` copies, and where from.
    struct Moving {
        std::vector<Entry> entries;
        std::vector<ChunkRecord> from;
    };
    using SharedBuffer = std::shared_ptr<io::BufferPool::Buffer>;
    Result<bool> read_whole(const ChunkKey& key, const ChunkRecord& record, const SharedBuffer& buffer, size_t at);
    Result<Moving> gather(std::span<const ChunkKey> keys, const SharedBuffer& buffer);
    Result<size_t> publish_moved(const Moving& moving, std::span<const ChunkRecord> to);
    Status replace(const ChunkKey& key, const ChunkRecord& old, const std::optional<ChunkRecord>& by);
    // Drops what was found damaged, if it is clean and still the same. It may wait for the index: damage is rare.
    void forget_damaged(const ChunkKey& key, const ChunkRecord& record);
    std::vector<std::unique_lock<std::mutex>> lock_keys(std::span<const Entry> entries);
    std::mutex& key_mutex(const ChunkKey& key);

    io::BufferPool& pool_;
    const std::string folder_;
    const std::string name_;
    const std::function<void(const Status&)> on_failure_;
    UniqueFd lock_;
    Format format_;
    std::unique_ptr<index::Index> index_;
    std::unique_ptr<Segments> segments_;
    std::atomic<uint64_t> sequence_{0};
    InFlight in_flight_;
    std::atomic<bool> hung_{false};
    // A key is looked up and changed under its mutex; several are taken in order of their places here.
    static constexpr size_t key_mutex_count = 64;
    std::array<std::mutex, key_mutex_count> key_mutexes_;
    Transfers transfers_;  // ends first: it waits for what the others are needed for
};

}  // namespace fabric::store
