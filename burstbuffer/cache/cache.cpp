#include "burstbuffer/cache/cache.h"

#include <algorithm>
#include <cstring>

#include "burstbuffer/cache/cache_metrics.h"
#include "common/log.h"

namespace fabric::cache {

using index::ChunkKey;
using index::ChunkRecord;

namespace {

// A read of a large file that wants less than this, which does not go on from another, fetches no chunk unless the
// chunk was asked for before: a random reader would fetch a hundred times what it wants.
constexpr size_t whole_from = ChunkKey::chunk_size / 4;
// Who begins a file with a read of this size reads on, most likely.
constexpr size_t begins_from = size_t{64} << 10;

uint64_t file_hash(const fs::FileId& file) {
    return placement::stable_hash({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
}

}  // namespace

Cache::Cache(disks::Disks& disks, Backing& backing, io::BufferPool& pool, const Options& options)
    : disks_(disks),
      options_(options),
      memory_(options.memory),
      recency_(options.remembered, options.correlated),
      flights_(disks, backing, pool, options.flights, landed, [this](size_t disk) { evictors_[disk]->wake(); }) {
    for (const auto& disk : disks.all()) {
        Evictor::OverQuota over;
        if (Datasets* datasets = options.flights.datasets) {
            over = [&disks, datasets](uint32_t dataset) { return datasets->over(disks, dataset); };
        }
        evictors_.push_back(std::make_unique<Evictor>(*disk, recency_, options.eviction, std::move(over)));
    }
}

Cache::~Cache() = default;

void Cache::start(Read& read) {
    read.cache_ = this;
    read.done_ = 0;
    read.bytes = 0;
    read.status = {};
    read.memory_left = false;
    uint64_t left = read.version.size - std::min(read.offset, read.version.size);
    read.wanted_ = std::min<uint64_t>(read.size, left);
    if (read.version.size > ChunkKey::chunk_size) {
        read.sequential_ = sequences_.note(file_hash(*read.file), read.offset, read.offset + read.wanted_);
        if (read.sequential_) read_ahead(read);
    }
    go_on(read);
}

void Cache::end(Read& read, Read::Outcome outcome) {
    if (outcome == Read::Outcome::passed) metrics().passed.add(1);
    read.outcome = outcome;
    read.bytes = outcome == Read::Outcome::served ? read.done_ : 0;
    read.finished(read);
}

uint64_t Cache::reads() {
    CacheMetrics& all = metrics();
    return static_cast<uint64_t>(all.memory.value() + all.disk.value() + all.fetched_bytes.value());
}

// From the place that it has got to, chunk by chunk, until something has to be waited for.
void Cache::go_on(Read& read) {
    while (read.done_ < read.wanted_) {
        uint64_t at = read.offset + read.done_;
        store::Read& part = read.part_;
        part.key = ChunkKey{*read.file, read.version, static_cast<uint32_t>(at / ChunkKey::chunk_size)};
        part.offset = at % ChunkKey::chunk_size;
        part.size = std::min(read.wanted_ - read.done_, ChunkKey::chunk_size - part.offset);
        part.to = read.to + read.done_;
        part.finished = part_read;
        part.release = read.release;
        part.released = read.released;
        read.hash_ = placement::stable_hash(part.key->encode());
        read.seen_ = recency_.use(read.hash_, part.size);
        if (from_memory(read)) continue;
        if (disks_.start(part) || fetch(read)) return;
    }
    end(read, Read::Outcome::served);
}

bool Cache::from_memory(Read& read) {
    if (read.version.size > MemoryTier::largest) return false;
    MemoryTier::Data data = memory_.find(*read.part_.key, read.hash_);
    if (data == nullptr || data->size() < read.part_.offset + read.part_.size) return false;
    memcpy(read.part_.to, data->data() + read.part_.offset, read.part_.size);
    metrics().memory.add(1);
    metrics().copied_bytes.add(static_cast<int64_t>(read.part_.size));
    read.done_ += read.part_.size;
    return true;
}

void Cache::part_read(store::Read& part) {
    Read& read = *static_cast<Read::Part&>(part).owner;
    Cache& cache = *read.cache_;
    if (part.outcome == store::Read::Outcome::failed && part.status.errno_value() != 0) {
        read.status = part.status;
        read.memory_left = part.memory_left;
        return end(read, part.only_here ? Read::Outcome::failed : Read::Outcome::passed);
    }
    if (part.outcome != store::Read::Outcome::hit || part.bytes != part.size) {
        if (!cache.fetch(read)) cache.go_on(read);
        return;
    }
    metrics().disk.add(1);
    bool whole = part.offset == 0 && part.size == read.version.size;
    if (whole && part.size <= MemoryTier::largest && read.seen_ && read.seen_->uses > 0) {
        cache.memory_.put(*part.key, read.hash_, {part.to, part.size});
    }
    read.done_ += part.size;
    cache.go_on(read);
}

void Cache::landed(Read& read, const char* data) {
    Cache& cache = *read.cache_;
    if (data == nullptr) return end(read, Read::Outcome::passed);
    memcpy(read.part_.to, data + read.part_.offset, read.part_.size);
    metrics().backing.add(1);
    metrics().copied_bytes.add(static_cast<int64_t>(read.part_.size));
    read.done_ += read.part_.size;
    cache.go_on(read);
}

bool Cache::fetch(Read& read) {
    Flights::Joined joined = flights_.join(read);
    if (joined == Flights::Joined::waits) return true;
    const ChunkKey& key = *read.part_.key;
    bool small_file = read.version.size <= ChunkKey::chunk_size;
    bool begins = read.offset == 0 && read.wanted_ >= begins_from;
    bool worth = small_file || begins || read.sequential_ || read.seen_ || read.wanted_ >= whole_from;
    if (worth && settled(read.version) && evictor(key).admits(read.seen_)) {
        joined = flights_.depart(key, read.seen_ ? store::Stream::kept : store::Stream::fresh, &read);
    }
    if (joined == Flights::Joined::waits) return true;
    if (joined == Flights::Joined::on_disk && disks_.start(read.part_)) return true;
    end(read, Read::Outcome::passed);
    return true;
}

// Each time that the reader comes into another chunk.
void Cache::read_ahead(const Read& read) {
    uint64_t begin = read.offset / ChunkKey::chunk_size;
    uint64_t last = (read.offset + read.wanted_) / ChunkKey::chunk_size;
    if (options_.read_ahead == 0 || (last == begin && read.offset % ChunkKey::chunk_size != 0)) return;
    if (!settled(read.version)) return;
    uint64_t chunks = (read.version.size + ChunkKey::chunk_size - 1) / ChunkKey::chunk_size;
    for (uint64_t number = last + 1; number < std::min(chunks, last + 1 + options_.read_ahead); ++number) {
        ChunkKey key{*read.file, read.version, static_cast<uint32_t>(number)};
        std::optional<Recency::Seen> seen = recency_.look(placement::stable_hash(key.encode()));
        if (disks_.find(key) || !evictor(key).admits(seen)) continue;
        if (flights_.depart(key, seen ? store::Stream::kept : store::Stream::fresh, nullptr) ==
            Flights::Joined::waits) {
            metrics().read_ahead.add(1);
        }
    }
}

bool Cache::settled(const index::FileVersion& version) const {
    using std::chrono::nanoseconds;
    using std::chrono::system_clock;
    auto now = std::chrono::duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count();
    auto wanted = std::chrono::duration_cast<nanoseconds>(options_.settle).count();
    return std::max(version.mtime, version.ctime) + wanted <= now;
}

void Cache::forget(const fs::FileId& file) {
    std::string name = index::key_prefix(file);
    {
        std::lock_guard lock(forget_mutex_);
        if (!to_forget_.insert(name).second) return;
    }
    flights_.run_later([this, file, name] {
        {
            std::lock_guard lock(forget_mutex_);
            to_forget_.erase(name);
        }
        if (Result<uint64_t> dropped = drop_from_disks(file); !dropped.ok()) {
            log::warn("cache: a changed file's chunks could not be dropped: {}", dropped.status().message());
        }
    });
}

}  // namespace fabric::cache
