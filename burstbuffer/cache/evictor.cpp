#include "burstbuffer/cache/evictor.h"

#include <algorithm>
#include <chrono>
#include <ctime>

#include "burstbuffer/cache/cache_metrics.h"
#include "common/log.h"

namespace fabric::cache {

using index::ChunkKey;
using index::ChunkRecord;
using store::Stream;

namespace {

constexpr double fresh_share = 0.1;
constexpr double sparse_below = 0.25;
constexpr size_t samples = 32;
constexpr size_t moved_at_once = size_t{4} << 20;
// Nothing could be dropped: all is pinned or dirty, or the disk fails.
constexpr auto pause = std::chrono::milliseconds(500);

uint64_t hash_of(const ChunkKey& key) { return placement::stable_hash(key.encode()); }

// Calls for each record that lies in the segment, until it returns false.
void visit(store::LocalStore& store, uint32_t segment,
           const std::function<bool(const ChunkKey&, const ChunkRecord&)>& each) {
    Status status = store.index().visit_residents({segment, 0}, [&](const index::Index::Resident& resident) {
        if (resident.place.segment != segment) return false;
        Result<std::optional<ChunkRecord>> record = store.find(resident.key);
        if (!record.ok() || !record->has_value() || (*record)->place != resident.place) return true;
        return each(resident.key, **record);
    });
    if (!status.ok()) log::warn("eviction: {}", status.message());
}

}  // namespace

Evictor::Evictor(disks::Disk& disk, Recency& recency, const Options& options, OverQuota over)
    : disk_(disk),
      recency_(recency),
      options_(options),
      over_quota_(std::move(over)),
      segment_size_(disk.store().format().segment_size) {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

Evictor::~Evictor() = default;

void Evictor::wake() {
    std::lock_guard lock(mutex_);
    woken_ = true;
    changed_.notify_one();
}

// In whole segments; two are always left: one to move to, one that is being filled.
bool Evictor::above(double share) const {
    store::Segments::Usage usage = disk_.store().usage();
    auto total = static_cast<int64_t>(usage.capacity / segment_size_);
    auto used = static_cast<int64_t>((usage.allocated - usage.free) / segment_size_);
    return used > std::min(static_cast<int64_t>(static_cast<double>(total) * share), std::max<int64_t>(total - 2, 1));
}

void Evictor::run(const std::stop_token& stop) {
    auto next_sweep = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
        changed_.wait_until(lock, stop, next_sweep, [&] { return woken_; });
        woken_ = false;
        lock.unlock();
        if (std::chrono::steady_clock::now() >= next_sweep) {
            if (expiring_) sweep();
            next_sweep = std::chrono::steady_clock::now() + options_.sweep;
        }
        make_room_if_needed(stop);
        bool stuck = above(options_.high);
        // A little below what it makes room down to, so that what comes between two rounds does not come unasked.
        pressed_ = above(options_.low - 0.1);
        if (pressed()) sample();
        lock.lock();
        if (stuck) changed_.wait_for(lock, stop, pause, [] { return false; });
    }
}

void Evictor::make_room_if_needed(const std::stop_token& stop) {
    if (!above(options_.high)) return;
    size_t fruitless = 0, most = disk_.store().full_segments().size() * 4 + 8;
    while (!stop.stop_requested() && disk_.usable() && above(options_.low) && fruitless < most) {
        std::optional<Info> segment = choose();
        if (!segment) return;
        bool made = make_room(*segment);
        fruitless = made ? 0 : fruitless + 1;
        if (made) disk_.has_room();
    }
    admitted_distance_ = 0;
}

void Evictor::sweep() {
    int64_t now = std::time(nullptr);
    bool more = false;
    std::vector<ChunkKey> over;
    expiring_ = false;
    Status status = disk_.store().index().visit_chunks({}, [&](const ChunkKey& key, const ChunkRecord& record) {
        if (record.lifetime.expires == 0 || record.dirty != 0) return true;
        if (record.lifetime.over(now)) {
            over.push_back(key);
        } else {
            more = true;
        }
        return true;
    });
    for (const ChunkKey& key : over) {
        if (status.ok()) status = disk_.store().drop(key);
    }
    metrics().expired.add(static_cast<int64_t>(over.size()));
    if (more || !status.ok()) expiring_ = true;
    if (!status.ok()) log::warn("looking for what has expired: {}", status.message());
}

std::optional<Evictor::Info> Evictor::choose() const {
    std::vector<Info> all = disk_.store().full_segments();
    std::erase_if(all, [](const Info& info) { return info.use.dirty != 0; });
    if (all.empty()) return std::nullopt;
    auto sparsest = std::ranges::min_element(all, {}, [](const Info& info) { return info.use.bytes; });
    if (static_cast<double>(sparsest->use.bytes) < sparse_below * static_cast<double>(segment_size_)) return *sparsest;
    auto is_fresh = [](const Info& info) { return info.stream == Stream::fresh; };
    auto fresh = std::ranges::count_if(all, is_fresh);
    uint64_t total = disk_.store().usage().capacity / segment_size_;
    bool from_fresh = fresh == std::ssize(all) ||
                      (fresh > 0 && static_cast<double>(fresh) > fresh_share * static_cast<double>(total));
    return *std::ranges::find_if(all, [&](const Info& info) { return is_fresh(info) == from_fresh; });
}

bool Evictor::keeps(const Info& segment, const ChunkKey& key, const ChunkRecord& record, bool sparse) {
    int64_t now = std::time(nullptr);
    if (record.dirty != 0) return true;
    if (record.lifetime.over(now)) return false;
    if (record.lifetime.pinned) return true;
    if (record.lifetime.dataset != 0 && over_quota_ && over_quota_(record.lifetime.dataset)) return false;
    if (sparse) return true;
    uint64_t hash = hash_of(key);
    std::optional<Recency::Seen> seen = recency_.look(hash);
    if (!seen || seen->uses == 0) return false;
    if (segment.stream != Stream::kept) return true;
    uint64_t longest = admitted_distance_;
    if (longest != 0 && seen->distance > longest) return false;
    recency_.pass(hash);
    return true;
}

bool Evictor::make_room(const Info& segment) {
    store::LocalStore& store = disk_.store();
    bool sparse = static_cast<double>(segment.use.bytes) < sparse_below * static_cast<double>(segment_size_);
    std::vector<ChunkKey> dropped, moving;
    std::vector<std::vector<ChunkKey>> moves;
    size_t moving_bytes = 0;
    visit(store, segment.number, [&](const ChunkKey& key, const ChunkRecord& record) {
        if (!keeps(segment, key, record, sparse)) {
            dropped.push_back(key);
            return true;
        }
        size_t bytes = size_t{record.blocks()} * index::Place::block_size;
        if (moving_bytes + bytes > moved_at_once) {
            moves.push_back(std::move(moving));
            moving.clear();
            moving_bytes = 0;
        }
        moving.push_back(key);
        moving_bytes += bytes;
        return true;
    });
    if (!moving.empty()) moves.push_back(std::move(moving));
    drop(dropped);
    for (const std::vector<ChunkKey>& keys : moves) {
        Result<size_t> moved = store.relocate(keys);
        if (moved.ok()) continue;
        if (moved.status().errno_value() != ENOSPC) {
            log::warn("eviction: {}", moved.status().message());
            return false;
        }
        // Nowhere to move them to: without what goes now, nothing would come any more.
        std::vector<ChunkKey> useful = keys;
        std::erase_if(useful, [&](const ChunkKey& key) {
            Result<std::optional<ChunkRecord>> record = store.find(key);
            return !record.ok() || !record->has_value() || (*record)->lifetime.pinned || (*record)->dirty != 0;
        });
        drop(useful);
        dropped.insert(dropped.end(), useful.begin(), useful.end());
    }
    return !dropped.empty() || sparse;
}

void Evictor::drop(std::span<const ChunkKey> keys) {
    for (const ChunkKey& key : keys) {
        if (Status status = disk_.store().drop(key); !status.ok()) log::warn("eviction: {}", status.message());
        recency_.leave(hash_of(key));
    }
    metrics().evicted.add(static_cast<int64_t>(keys.size()));
}

// The median of when some of the kept records whose turn is next were used.
void Evictor::sample() {
    sampled_at_ = recency_.now();
    std::vector<Info> all = disk_.store().full_segments();
    auto next = std::ranges::find_if(all, [](const Info& info) { return info.stream == Stream::kept; });
    if (next == all.end()) {
        victims_last_ = 0;
        return;
    }
    std::vector<uint64_t> ages;
    visit(disk_.store(), next->number, [&](const ChunkKey& key, const ChunkRecord&) {
        std::optional<Recency::Seen> seen = recency_.look(hash_of(key));
        ages.push_back(seen ? seen->distance : UINT64_MAX);
        return ages.size() < samples;
    });
    if (ages.empty()) return;
    auto middle = ages.begin() + static_cast<ptrdiff_t>(ages.size() / 2);
    std::ranges::nth_element(ages, middle);
    uint64_t now = recency_.now();
    victims_last_ = *middle > now ? 0 : now - *middle;
}

bool Evictor::admits(const std::optional<Recency::Seen>& seen) {
    if (!pressed() || !seen) return true;
    if (seen->distance >= victims_age()) return false;
    uint64_t longest = admitted_distance_;
    while (longest < seen->distance && !admitted_distance_.compare_exchange_weak(longest, seen->distance)) {
    }
    return true;
}

uint64_t Evictor::victims_age() {
    uint64_t now = recency_.now();
    // They may have been used since: looked at again each time that a quarter of a segment went by.
    if (now - sampled_at_ > segment_size_ / 4) wake();
    uint64_t last = victims_last_;
    return last == 0 ? UINT64_MAX : now - last;
}

}  // namespace fabric::cache
