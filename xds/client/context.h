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

#include "xds/client/operation.h"
#include "xds/client/staging.h"
#include "xds/client/stream.h"
#include "xds/client/ticket.h"

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
    std::atomic<uint64_t> staged_bytes{0}, tcp_bytes{0}, local_bytes{0}, verified_bytes{0}, checksum_errors{0};
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

    // ---- on the reactor's thread ----
    transport::Reactor& reactor() { return *reactor_; }
    const sockaddr_storage& target_address() const { return target_; }
    socklen_t target_address_length() const { return target_length_; }
    const OwnTicket& ticket() const { return ticket_; }
    std::chrono::milliseconds patience() const {
        return std::min(settings_.timeout, std::chrono::milliseconds(10'000));
    }
    bool closing() const { return closing_; }
    StagingPool& staging() { return staging_; }
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

    const Settings settings_;
    Counters counters_;
    OwnTicket ticket_;
    sockaddr_storage target_{};
    socklen_t target_length_ = 0;

    std::shared_mutex submit_mutex_;  // held while posting; exclusively to close
    bool closed_ = false;
    std::atomic<bool> closing_{false};

    // The reactor's own.
    StagingPool staging_;
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
