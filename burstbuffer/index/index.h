// What one store holds, in RocksDB: chunks by key, the same by place, segments' use, dirty records in order.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "burstbuffer/index/chunk_key.h"
#include "burstbuffer/index/chunk_record.h"
#include "burstbuffer/index/segment_use.h"
#include "common/result.h"

namespace fabric::index {

// Thread safe. A call may wait for the disk that the index lies on, so none belongs on a lane's thread but find(),
// which is answered from memory for what was used lately.
class Index {
  public:
    struct Options {
        // Memory for blocks of the index, its filters included; what is being written comes to 64 MiB at most.
        size_t cache_bytes = size_t{64} << 20;
    };

    // Several records that appear and disappear together.
    class Change {
      public:
        Change();
        ~Change();
        Change(Change&&) noexcept;
        Change& operator=(Change&&) noexcept;

        void put(const ChunkKey& key, const ChunkRecord& record);
        // `record`: what is there now.
        void remove(const ChunkKey& key, const ChunkRecord& record);

      private:
        friend class Index;
        struct Batch;
        std::unique_ptr<Batch> batch_;
    };

    // `folder` is made if it is not there (its parent must be). A damaged index is Code::corrupt, with RocksDB's words.
    static Result<std::unique_ptr<Index>> open(const std::string& folder, const Options& options);
    ~Index();

    Result<std::optional<ChunkRecord>> find(const ChunkKey& key) const;

    // All of it or nothing. `durable`: it survives a power cut when the call returns; else it survives the process, and
    // a later durable change or the kernel's write-back makes it durable.
    Status apply(const Change& change, bool durable);

    // Each calls `visit` until that returns false. A visitor may change the index: it sees the state from the start of
    // the visit. Entries that cannot be decoded go to `damaged` (if set) and are passed over.
    using Damaged = std::function<void(std::string_view family, std::string_view key, const Status& why)>;
    using ChunkVisitor = std::function<bool(const ChunkKey&, const ChunkRecord&)>;
    Status visit_chunks(const std::string& prefix, const ChunkVisitor& visit, const Damaged& damaged = {}) const;
    // By place, from `from` on, in all segments after it too.
    struct Resident {
        Place place;
        uint32_t blocks = 0;
        ChunkKey key;
    };
    Status visit_residents(const Place& from, const std::function<bool(const Resident&)>& visit,
                           const Damaged& damaged = {}) const;
    // In the order in which they were acknowledged, from `sequence` on.
    Status visit_dirty(uint64_t sequence, const std::function<bool(uint64_t, const ChunkKey&)>& visit,
                       const Damaged& damaged = {}) const;

    Result<std::map<uint32_t, SegmentUse>> segments() const;
    // What the records of a dataset (Lifetime::dataset) take up.
    SegmentUse dataset_use(uint32_t dataset) const;
    // The first block behind everything that lies in the segment.
    Result<uint32_t> end_of(uint32_t segment) const;
    // The highest sequence of a dirty record, 0 if there is none.
    Result<uint64_t> last_dirty() const;

    // For repair: makes the three derived families (by place, use, dirty) anew from the chunks.
    Status derive_again();
    // Removes an entry by its raw key, as `Damaged` names it.
    Status erase_raw(std::string_view family, std::string_view key);

  private:
    struct Database;
    explicit Index(std::unique_ptr<Database> database);
    using Uses = std::map<uint32_t, SegmentUse>;
    Result<Uses> uses(uint32_t family) const;
    Status load_datasets();
    mutable std::mutex datasets_mutex_;
    Uses datasets_;
    std::unique_ptr<Database> database_;
};

}  // namespace fabric::index
