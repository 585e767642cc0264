// A cache on one or more disks, in front of files that are made up.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>

#include "burstbuffer/cache/cache.h"
#include "tests/unit/burstbuffer/disks/disks_fixture.h"

namespace fabric::cache {

using store::Memory;
using store::mib;

// Bytes that follow from the file, its version and the place.
inline void fill(char* to, uint64_t file, int64_t version, uint64_t offset, size_t size) {
    for (size_t i = 0; i < size; ++i) {
        uint64_t word = (offset + i) / 8;
        uint64_t mixed =
            (word + 1) * 0x9e3779b97f4a7c15ULL + file * 0xbf58476d1ce4e5b9ULL + static_cast<uint64_t>(version);
        to[i] = static_cast<char>((mixed ^ (mixed >> 29)) >> (8 * ((offset + i) % 8)));
    }
}

// A backing store of such files; each has one version at a time. It answers on a thread of its own.
class MadeUpBacking : public Backing {
  public:
    MadeUpBacking() : thread_([this](const std::stop_token& stop) { run(stop); }) {}

    void start(Fetch& fetch) override {
        std::lock_guard lock(mutex_);
        waiting_.push_back(&fetch);
        ++fetches;
        bytes += fetch.size;
        changed_.notify_all();
    }
    // Nothing is answered until let_go().
    void hold() { held_ = true; }
    void let_go() {
        std::lock_guard lock(mutex_);
        held_ = false;
        changed_.notify_all();
    }
    // Of the file with this number; others have version 1.
    void set_version(uint64_t file, int64_t version) {
        std::lock_guard lock(mutex_);
        versions_[file] = version;
    }

    std::atomic<uint64_t> fetches{0};
    std::atomic<uint64_t> bytes{0};
    std::atomic<int> error{0};

  private:
    void run(const std::stop_token& stop) {
        std::unique_lock lock(mutex_);
        while (changed_.wait(lock, stop, [&] { return !waiting_.empty() && !held_; })) {
            Fetch& fetch = *waiting_.front();
            waiting_.pop_front();
            uint64_t file = 0;
            memcpy(&file, fetch.file->kernel().data(), sizeof(file));
            int64_t version = versions_.contains(file) ? versions_[file] : 1;
            lock.unlock();
            fetch.status = {};
            if (error != 0) {
                fetch.status = Status::from_errno(error, "made up");
            } else if (fetch.version.mtime != version) {
                fetch.status = Status::from_errno(ESTALE, "made up");
            } else {
                fill(fetch.to, file, version, fetch.offset, fetch.size);
            }
            fetch.finished(fetch);
            lock.lock();
        }
    }

    std::mutex mutex_;
    std::condition_variable_any changed_;
    std::deque<Fetch*> waiting_;
    std::map<uint64_t, int64_t> versions_;
    std::atomic<bool> held_{false};
    std::jthread thread_;
};

class CacheFixture : public disks::DisksFixture {
  public:
    explicit CacheFixture(size_t disk_count = 1) : DisksFixture(disk_count) {
        cache_options.correlated = 0;
        cache_options.remembered = 1 << 16;
        cache_options.read_ahead = 0;
    }
    ~CacheFixture() { close(); }

    void close() { cache.reset(); }
    void open_cache(uint64_t capacity = 0) {
        close();
        for (disks::DiskOptions& one : options) {
            one.capacity = capacity;
            one.spare_segments = 1;
            one.segment_size = segment_size;
        }
        open();
        cache = std::make_unique<Cache>(*disks, backing, pool, cache_options);
    }

    struct Awaited : Read {
        Awaited(size_t bytes_at, size_t shift) : memory(bytes_at, shift) {}
        std::latch done{1};
        Memory memory;
    };
    static index::FileVersion version(uint64_t size, int64_t number = 1) {
        return {.size = size, .mtime = number, .ctime = number};
    }
    std::unique_ptr<Awaited> start(uint64_t file, uint64_t file_size, uint64_t offset, size_t size, int64_t number = 1,
                                   size_t shift = 0) {
        auto read = std::make_unique<Awaited>(size, shift);
        read->file = sample_file(file);
        read->version = version(file_size, number);
        read->offset = offset;
        read->size = size;
        read->to = read->memory.data();
        read->finished = [](Read& finished) { static_cast<Awaited&>(finished).done.count_down(); };
        cache->start(*read);
        return read;
    }
    // Served, with the right bytes.
    static bool right(Awaited& read) {
        read.done.wait();
        if (read.outcome != Read::Outcome::served) return false;
        uint64_t file = 0;
        memcpy(&file, read.file->kernel().data(), sizeof(file));
        uint64_t left = read.version.size - std::min(read.offset, read.version.size);
        EXPECT_EQ(read.bytes, std::min<uint64_t>(read.size, left));
        std::string expected(read.bytes, '\0');
        fill(expected.data(), file, read.version.mtime, read.offset, read.bytes);
        bool same = memcmp(expected.data(), read.memory.data(), read.bytes) == 0;
        EXPECT_TRUE(same) << "file " << file << ", " << read.size << " bytes from " << read.offset;
        return same;
    }
    bool reads(uint64_t file, uint64_t file_size, uint64_t offset = 0, size_t size = mib) {
        return right(*start(file, file_size, offset, size));
    }
    bool holds(uint64_t file, uint64_t file_size, uint32_t number = 0) {
        return disks->find({sample_file(file), version(file_size), number}).has_value();
    }
    // What was on its way has been written.
    void settle() {
        cache.reset();
        cache = std::make_unique<Cache>(*disks, backing, pool, cache_options);
    }

    uint64_t segment_size = 4 * mib;
    MadeUpBacking backing;
    Cache::Options cache_options;
    std::unique_ptr<Cache> cache;
};

}  // namespace fabric::cache
