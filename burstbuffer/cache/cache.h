// The cache in front of the backing store: memory, the node's disks, and what is on its way.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "burstbuffer/cache/backing.h"
#include "burstbuffer/cache/evictor.h"
#include "burstbuffer/cache/flights.h"
#include "burstbuffer/cache/memory_tier.h"
#include "burstbuffer/cache/read.h"
#include "burstbuffer/cache/recency.h"
#include "burstbuffer/cache/sequences.h"
#include "burstbuffer/disks/disks.h"

namespace fabric::cache {

// Thread safe.
class Cache {
  public:
    struct Options {
        size_t memory = size_t{256} << 20;         // bytes, for small chunks that are asked for often
        size_t remembered = size_t{4} << 20;       // chunks whose last use is remembered; 8 bytes each
        uint64_t correlated = uint64_t{64} << 20;  // see Recency
        uint32_t read_ahead = 4;                   // chunks ahead of a sequential reader; 0: none
        // A file that changed so lately is not taken: file systems count time in ticks, and a second change in the same
        // tick would not make another version.
        std::chrono::milliseconds settle{2000};
        Flights::Options flights;
        Evictor::Options eviction;
    };
    // All three outlive it. Each disk should have a spare segment (StoreOptions::spare_segments) to make room with.
    Cache(disks::Disks& disks, Backing& backing, io::BufferPool& pool, const Options& options);
    // Nothing may be in flight but what nobody waits for.
    ~Cache();

    // Returns at once. See Read. Whether the caller may read the file is the caller's to check.
    void start(Read& read);

    // The backing store has other bytes now, or none: the file's chunks are dropped, soon. Readers are right without
    // it, since they ask for the file's version of now; it is for room. Any thread, never waits.
    void forget(const fs::FileId& file);

    // For staging. Each waits for the disk.
    // Takes clean chunks at their owner's wish, into kept segments. How many were taken.
    size_t take(std::span<const disks::Entry> entries, const index::Lifetime& lifetime);
    struct Held {
        uint64_t chunks = 0;
        uint64_t bytes = 0;
        uint64_t pinned = 0;  // chunks
    };
    // What is held of one version of a file.
    Held held(const fs::FileId& file, const index::FileVersion& version);
    // Of all versions of it. Dirty chunks stay. How many there were.
    Result<uint64_t> drop(const fs::FileId& file);
    Result<uint64_t> set_lifetime(const fs::FileId& file, const index::Lifetime& lifetime);
    // Others need room on the disks: what may be dropped is, soon. Any thread, never waits.
    void make_room();
    // Bytes that could still be taken, by what is free and what may be dropped.
    uint64_t room();

    // Answered so far, by all caches of the process.
    static uint64_t reads();
    // Bytes of chunks that are being fetched or written to the disks.
    size_t on_their_way() const { return flights_.bytes(); }
    disks::Disks& disks() { return disks_; }
    // Null: there are none.
    Datasets* datasets() const { return options_.flights.datasets; }

  private:
    static void part_read(store::Read& part);
    static void landed(cache::Read& read, const char* data);
    void go_on(Read& read);
    bool from_memory(Read& read);
    // True: the read goes on elsewhere, or has ended.
    bool fetch(Read& read);
    void read_ahead(const Read& read);
    bool settled(const index::FileVersion& version) const;
    static void end(Read& read, Read::Outcome outcome);
    Evictor& evictor(const index::ChunkKey& key) { return *evictors_[disks_.home(key)]; }
    using Visitor = std::function<Status(store::LocalStore&, const index::ChunkKey&, const index::ChunkRecord&)>;
    Result<uint64_t> drop_from_disks(const fs::FileId& file);
    Status each_chunk(const fs::FileId& file, const Visitor& visit);

    disks::Disks& disks_;
    const Options options_;
    MemoryTier memory_;
    Recency recency_;
    Sequences sequences_;
    std::vector<std::unique_ptr<Evictor>> evictors_;
    std::mutex forget_mutex_;
    std::set<std::string> to_forget_;
    // Last: what is on its way uses the rest.
    Flights flights_;
};

}  // namespace fabric::cache
