// A context: the connections to one target, and the operations that go over them.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "xds/client/copier.h"
#include "xds/client/operation.h"
#include "xds/client/pace.h"
#include "xds/client/staging.h"
#include "xds/client/stream.h"
#include "xds/client/ticket.h"
#include "xds/transport/verbs/verbs_domain.h"
#include "xds/transport/verbs/verbs_lane.h"

namespace fabric::xds::client {

enum class Mode { automatic, direct_only, staged, tcp };

struct Settings {
    std::string address;
    std::string agent;
    Mode mode = Mode::automatic;
    unsigned streams = 4;
    std::chrono::milliseconds timeout{30'000};
    size_t piece = 1 << 20;
    size_t staging_bytes = 32 << 20;
    bool verify = false;
};

struct Counters {
    std::atomic<uint64_t> requests{0}, errors{0}, messages{0}, connections{0}, reconnects{0}, registrations{0};
    std::array<std::atomic<uint64_t>, XDS_PATH_LOCAL + 1> path_bytes{};
    std::atomic<uint64_t> verified_bytes{0}, checksum_errors{0};

    void moved(xds_path path, uint64_t bytes) { path_bytes[path].fetch_add(bytes, std::memory_order_relaxed); }
};

class Context {
  public:
    // Connects the first stream, so that a wrong address or ticket is told now.
    static Result<std::shared_ptr<Context>> open(const Settings& settings);
    // Only after close().
    ~Context();
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;

    // Any thread: done() will be called, on the reactor's thread. Error: the context is closing, and done() will not.
    Status submit(Operation& operation);
    // Runs it on the reactor's thread and waits; not when the context is closed. Not from that thread.
    template <typename F>
    void on_reactor(F&& call) {
        std::shared_lock lock(submit_mutex_);
        if (!closed_) reactor_->call(std::forward<F>(call));
    }
    // Submits it and waits for its end. Not from the reactor's thread.
    Status run(Operation& operation);
    // Ends all operations and connections; waits. Not from the reactor's thread.
    void close();

    const Settings& settings() const { return settings_; }
    const std::string& address() const { return settings_.address; }
    Counters& counters() { return counters_; }

    // Host memory that a caller promises to keep until forget(): it stays registered between requests. Its number.
    uint64_t remember(const void* address, size_t length);
    void forget(uint64_t number);
    // An allocation of a kind is gone: its registrations too.
    void forget(const memory::Kind& kind, uint64_t allocation) { domains_.forget(kind, allocation); }
    // The place that requests on it have, when the range is within remembered memory, else `found`.
    memory::Place look_up(const memory::Place& found, const void* address, size_t length) const;
    // True: data moves by RDMA. May change when a connection is made anew.
    bool over_rdma() const { return over_rdma_.load(std::memory_order_relaxed); }
    // Why it does not.
    std::string why_not_direct() const;
    // How the card reaches memory that is not the host's.
    transport::DeviceMemory::Verdict way_to(const memory::Place& place) { return domains_.way(place); }
    Pace& pace() { return pace_; }

    // ---- on the reactor's thread ----
    transport::Reactor& reactor() { return *reactor_; }
    const sockaddr_storage& target_address() const { return target_; }
    socklen_t target_address_length() const { return target_length_; }
    const OwnTicket& ticket() const { return ticket_; }
    std::chrono::milliseconds patience() const {
        return std::min(settings_.timeout, std::chrono::milliseconds(10'000));
    }
    bool closing() const { return closing_; }
    // An RDMA connection has queue pairs enough: one does. Fewer tries after one that failed.
    bool wants_rdma(unsigned stream) const;
    std::chrono::milliseconds rdma_patience() const;
    Result<transport::VerbsLane*> verbs_lane();
    transport::VerbsDomains& domains() { return domains_; }
    void no_rdma(const std::string& why);
    void connected_over(unsigned stream, bool rdma);
    StagingPool& staging() { return staging_; }
    Copier& copier() { return copier_; }
    std::vector<std::unique_ptr<Stream>>& streams() { return streams_; }
    // Sends what can be sent.
    void pump();
    // Ends it with ECANCELED as soon as nothing of it is in flight, and asks the target not to begin with the rest.
    void cancel(Operation& operation);
    // One message of the operation has come to its end.
    void piece_over(Operation& operation);

  private:
    explicit Context(const Settings& settings);
    Status resolve();
    void arrived(Operation& operation);
    void expired(Operation& operation);
    // What came of trying to send.
    enum class Pushed { all, blocked, no_staging };
    Pushed push(Operation& operation);
    Stream* choose(Operation& operation, Status& problem);
    void link(Operation& operation);
    void unlink(Operation& operation);
    void finish_if_over(Operation& operation);
    unsigned stream_count() const { return over_rdma() ? 1 : static_cast<unsigned>(streams_.size()); }

    const Settings settings_;
    Counters counters_;
    OwnTicket ticket_;
    sockaddr_storage target_{};
    socklen_t target_length_ = 0;

    std::shared_mutex submit_mutex_;  // held while posting; exclusively to close
    bool closed_ = false;
    std::atomic<bool> closing_{false};

    mutable std::shared_mutex remembered_mutex_;
    std::vector<memory::Place> remembered_;
    std::atomic<bool> over_rdma_{false};
    mutable std::mutex why_not_direct_mutex_;
    std::string why_not_direct_;
    Pace pace_;

    // The reactor's own.
    std::chrono::steady_clock::time_point next_rdma_;  // not to be tried before
    std::unique_ptr<transport::VerbsLane> verbs_lane_;
    transport::VerbsDomains domains_;
    StagingPool staging_;
    Copier copier_;
    std::vector<std::unique_ptr<Stream>> streams_;
    unsigned next_stream_ = 0;
    Operation* first_ = nullptr;  // that have something to send
    Operation* last_ = nullptr;
    size_t unfinished_ = 0;
    bool pumping_ = false, pump_again_ = false;
    std::promise<void>* all_finished_ = nullptr;

    std::unique_ptr<transport::Reactor> reactor_;  // destroyed first
};

}  // namespace fabric::xds::client
