// Makes room on one disk: S3-FIFO by segment over clean records.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "burstbuffer/cache/recency.h"
#include "burstbuffer/disks/disk.h"

namespace fabric::cache {

// What comes lies in fresh segments, what was used while it lay there is moved to kept ones when its segment's turn
// comes; the rest is dropped. A kept segment's turn comes when fresh ones are no more than a tenth: what was used since
// its last turn is moved to the end. So a scan passes through the tenth. Segments that are mostly empty go first.
// Pinned records are always moved; segments with dirty ones are left alone.
//
// One thread of its own; the rest may be called from any thread.
class Evictor {
  public:
    struct Options {
        double high = 0.95;  // of the capacity in use: making room begins
        double low = 0.90;   // and ends
        // How often what has expired is looked for, in all of the index; not at all where nothing expires.
        std::chrono::milliseconds sweep{600'000};
    };
    // Whether a dataset has more than its quota, as when that was lowered: it goes first then. Empty: none has.
    using OverQuota = std::function<bool(uint32_t dataset)>;
    Evictor(disks::Disk& disk, Recency& recency, const Options& options, OverQuota over = {});
    ~Evictor();

    // Something was written or dropped.
    void wake();
    // Something that expires was written.
    void expects_expiry() { expiring_.store(true, std::memory_order_relaxed); }
    // Room is short enough that something will be dropped for what comes.
    bool pressed() const { return pressed_.load(std::memory_order_relaxed); }
    // Bytes that went by since the kept records whose turn is next were used; UINT64_MAX: they were not, as far as is
    // known, or there are none.
    uint64_t victims_age();

    // Whether a chunk may come: it was seen before at this distance, or was not. When it was, it must be closer than
    // what would go for it in the end: in a loop over more than fits, what is there stays and gives hits, instead of
    // each chunk being dropped shortly before it is wanted.
    bool admits(const std::optional<Recency::Seen>& seen);

  private:
    using Info = store::Segments::Info;
    void run(const std::stop_token& stop);
    bool above(double share) const;
    std::optional<Info> choose() const;
    void make_room_if_needed(const std::stop_token& stop);
    void sweep();
    // True: some of it was dropped, or it was mostly empty.
    bool make_room(const Info& segment);
    bool keeps(const Info& segment, const index::ChunkKey& key, const index::ChunkRecord& record, bool sparse);
    void drop(std::span<const index::ChunkKey> keys);
    void sample();

    disks::Disk& disk_;
    Recency& recency_;
    const Options options_;
    const OverQuota over_quota_;
    uint64_t segment_size_ = 0;
    std::atomic<bool> pressed_{false};
    std::atomic<bool> expiring_{true};       // not known at the start
    std::atomic<uint64_t> victims_last_{0};  // when they were last used, in Recency's time; 0: never
    std::atomic<uint64_t> sampled_at_{0};
    // The longest distance of those that came since room was made last: what was not used for longer goes for them,
    // however often it was used before.
    std::atomic<uint64_t> admitted_distance_{0};
    std::mutex mutex_;
    std::condition_variable_any changed_;
    bool woken_ = false;
    std::jthread thread_;
};

}  // namespace fabric::cache
