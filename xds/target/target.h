// The storage node's side of XDS: serves extents of a directory tree to clients. fabricd hosts one; any process may.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "common/io/buffer_pool.h"
#include "common/io/engine.h"
#include "xds/security/keyring.h"
#include "xds/security/replay.h"
#include "xds/target/config.h"
#include "xds/target/session.h"
#include "xds/target/tree.h"
#include "xds/target/workers.h"
#include "xds/transport/verbs/verbs_listener.h"

namespace fabric::xds::target {

// Start and stop from any thread that is not one of its own.
class Target {
  public:
    // Listens when it returns. Errors name the setting.
    // `cache`, null for none, is asked before a file is read, `behind` before it is opened; both outlive the target.
    static Result<std::unique_ptr<Target>> start(const Config& config, ReadCache* cache = nullptr,
                                                 WriteBehind* behind = nullptr);
    // Closes what is left of connections at once.
    ~Target();

    int port() const { return port_; }
    // Ok: clients may come over RDMA; else why not.
    const Status& rdma() const { return rdma_; }
    // Takes nothing new, answers what it has, and waits for the clients to be gone, at most for `limit`.
    void drain(std::chrono::milliseconds limit);
    // Reads the key file again.
    Status reload_keys();
    // A new placement: clients are told, requests of older epochs are refused.
    void set_map_epoch(uint64_t epoch);

    size_t connections() const;
    size_t bytes_in_flight() const { return budget_.used(); }

    // ---- for sessions ----
    const Config& config() const { return config_; }
    ReadCache* cache() const { return cache_; }
    Tree& tree() { return *tree_; }
    Workers& workers() { return *workers_; }
    io::Engine& engine() { return *engine_; }
    io::Budget& budget() { return budget_; }
    const security::Keyring& keys() const { return *keys_; }
    std::shared_ptr<const security::Keyring> shared_keys() const { return keys_; }
    security::ReplayWindow& replays() { return replays_; }
    bool open_to_all() const { return config_.key_file.empty(); }
    uint64_t instance() const { return instance_; }
    uint64_t map_epoch() const { return map_epoch_.load(std::memory_order_relaxed); }
    bool draining() const { return draining_.load(std::memory_order_relaxed); }
    // Destroys it.
    void remove(Session& session);

  private:
    struct Accept : transport::Operation {
        Target* target = nullptr;
    };

    explicit Target(const Config& config);
    Status set_up();
    void accept_next();
    void accepted(int result);
    void for_each_session(void (*call)(Session&, uint64_t), uint64_t argument);
    void stop_accepting();

    struct Start;
    // A session on the next lane; null: one more is not taken. Called with mutex_ held.
    Session* admit(size_t& lane);
    Status start_lanes(unsigned count);
    Status listen_rdma();
    void rdma_arrived(transport::VerbsRequest request);

    struct Retry : transport::Timer {
        Target* target = nullptr;
    };

    Config config_;
    ReadCache* cache_ = nullptr;
    WriteBehind* behind_ = nullptr;
    std::unique_ptr<Tree> tree_;
    std::shared_ptr<security::Keyring> keys_;
    security::ReplayWindow replays_;
    uint64_t instance_ = 0;
    std::atomic<uint64_t> map_epoch_{1};
    transport::VerbsDomains domains_;  // outlives the pools whose memory is registered in it
    io::Budget budget_;
    // One for each NUMA node that has lanes; that of each lane.
    std::vector<std::unique_ptr<io::BufferPool>> pools_;
    std::vector<io::BufferPool*> pool_of_lane_;
    std::unique_ptr<io::Engine> engine_;
    std::unique_ptr<Workers> workers_;

    UniqueFd listener_;
    int port_ = 0;
    Accept accept_;
    Retry retry_;  // on lane 0: accepts again when there was no descriptor left
    std::atomic<bool> draining_{false};
    bool accepting_ = false;  // guarded by mutex_
    Status rdma_;
    std::unique_ptr<transport::VerbsListener> rdma_listener_;  // lane 0's

    struct Entry {
        std::unique_ptr<Session> session;
        transport::Reactor* reactor;
    };
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Entry> sessions_;
    size_t next_lane_ = 0;
    std::vector<std::unique_ptr<transport::VerbsLane>> rdma_lanes_;  // one a lane, or none at all
    std::vector<std::unique_ptr<transport::Reactor>> lanes_;         // destroyed first
};

uint64_t wall_clock_ns();

}  // namespace fabric::xds::target
