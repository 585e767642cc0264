// Chunks on their way from the backing store: each is fetched once, whoever waits for it, and then written to its disk.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "burstbuffer/cache/backing.h"
#include "burstbuffer/cache/datasets.h"
#include "burstbuffer/cache/read.h"
#include "burstbuffer/disks/disks.h"
#include "common/io/buffer_pool.h"

namespace fabric::cache {

// Thread safe.
class Flights {
  public:
    struct Options {
        size_t bytes = size_t{256} << 20;  // of all chunks on their way; what would be beyond is not fetched
        unsigned writers = 2;              // threads that write to the disks
        Datasets* datasets = nullptr;      // outlives it; null: there are none
    };
    // What a waiting read is told: on a thread of the backing's, or of the caller's. `data` is the whole chunk, or null
    // when it could not be fetched.
    using Landed = void (*)(Read& read, const char* data);

    Flights(disks::Disks& disks, Backing& backing, io::BufferPool& pool, const Options& options, Landed landed,
            std::function<void(size_t disk)> wrote);
    // Waits for what is on its way.
    ~Flights();

    enum class Joined {
        waits,    // it is told when the chunk is there, or was told already
        on_disk,  // it has just been written
        none,     // it is not on its way
    };
    // If the chunk is on its way.
    Joined join(Read& read);
    // Fetches the chunk: for `read`, or for nobody yet (null). None: no memory, or too much is on its way.
    Joined depart(const index::ChunkKey& key, store::Stream stream, Read* read);

    // Runs on a writer's thread, behind what is waiting there.
    void run_later(std::function<void()> task);
    size_t bytes() const { return bytes_.load(); }

  private:
    struct Flight : Backing::Fetch {
        Flights* flights = nullptr;
        std::shared_ptr<Flight> self;  // while the backing has it
        std::optional<index::ChunkKey> key;
        std::string name;
        store::Stream stream = store::Stream::fresh;
        io::LentBuffer buffer;
        Read* waiting = nullptr;
        bool landed = false;
        ~Flight();
    };
    using FlightPtr = std::shared_ptr<Flight>;
    struct Shard {
        std::mutex mutex;
        std::unordered_map<std::string, FlightPtr> flights;
    };
    Shard& shard(const std::string& name) { return shards_[std::hash<std::string>()(name) % shards_.size()]; }
    FlightPtr prepare(const index::ChunkKey& key, store::Stream stream);
    Joined join_or_add(const FlightPtr& flight, Read* read);
    void remove(const Flight& flight);
    void fetched(const FlightPtr& flight);
    void write(const std::stop_token& stop);
    void write_batch(const std::vector<FlightPtr>& batch);

    disks::Disks& disks_;
    Backing& backing_;
    io::BufferPool& pool_;
    const Options options_;
    const Landed landed_;
    const std::function<void(size_t)> wrote_;
    std::atomic<size_t> bytes_{0};
    std::array<Shard, 16> shards_;
    std::mutex mutex_;
    std::condition_variable_any arrived_;
    std::condition_variable landed_all_;
    std::deque<FlightPtr> to_write_;
    std::deque<std::function<void()>> tasks_;
    size_t on_their_way_ = 0;
    std::vector<std::jthread> writers_;
};

}  // namespace fabric::cache
