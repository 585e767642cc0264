// One of a node's disks: its store, how it is doing, and how full it is.
#pragma once

#include <atomic>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "burstbuffer/disks/health.h"
#include "burstbuffer/placement/rendezvous.h"
#include "burstbuffer/store/local_store.h"
#include "common/result.h"

namespace fabric::disks {

struct DiskOptions {
    std::string folder;
    // Its share of the chunks, beside the other disks' weights; above 0.
    double weight = 1;
    uint64_t capacity = 0;                        // see store::StoreOptions
    uint64_t reserve = uint64_t{1} << 30;         // bytes
    uint64_t segment_size = uint64_t{256} << 20;  // bytes
    uint32_t spare_segments = 0;                  // see store::Segments::Limits
    index::Index::Options index;
    Health::Rules health;
    // Seconds, at most store::InFlight::longest: a transfer that takes longer means that the disk hangs, and who waits
    // for it goes on without it.
    unsigned hung_after = 10;
    // Outlives the disk. Its own: what waits in it for a disk that hangs holds up no other's. Null: the one of all.
    io::Engine* engine = nullptr;
};

// Thread safe. A thread of its own tries it again while it rests.
class Disk {
  public:
    static Result<std::unique_ptr<Disk>> open(const DiskOptions& options, io::Engine& engine, io::BufferPool& pool);
    // Nothing may be in flight.
    ~Disk();

    store::LocalStore& store() { return *store_; }
    const std::string& folder() const { return folder_; }
    const placement::Member& member() const { return member_; }
    Health::State state() const { return health_.state(); }
    // Reads of what the backing store has too, and writes, go to it.
    bool usable() const { return state() == Health::State::good; }
    // It had no room a moment ago; asked again a second later.
    bool full() const;
    // There is some again.
    void has_room() { full_until_.store(0, std::memory_order_relaxed); }

  private:
    Disk(const DiskOptions& options)
        : folder_(options.folder), hung_after_(options.hung_after), health_(options.health) {}
    void failed(const Status& status);
    bool hangs() const { return store_->stuck(hung_after_); }
    void look_whether_it_hangs();
    void keep(const std::stop_token& stop);
    void try_again(std::future<Status>& probing);
    Status probe() const;

    const std::string folder_;
    const unsigned hung_after_;
    std::string probe_path_;
    placement::Member member_;
    Health health_;
    std::atomic<int64_t> full_until_{0};  // steady clock, nanoseconds
    std::mutex mutex_;
    std::condition_variable_any wake_;
    bool rests_ = false;
    std::unique_ptr<store::LocalStore> store_;
    std::jthread keeper_;
};

}  // namespace fabric::disks
