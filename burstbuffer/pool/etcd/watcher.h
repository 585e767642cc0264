// Follows a range of keys: all of them first, then every change, through lost connections and compactions.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "burstbuffer/pool/etcd/client.h"

namespace fabric::etcd {

class Watcher {
  public:
    // Called on the watcher's thread, one call at a time; none throws.
    class Handler {
      public:
        virtual ~Handler() = default;
        // All keys of the range, as of one revision: what was known before is to be forgotten. The first call, and
        // again where changes in between can no longer be had.
        virtual void start_from(const Listing& listing) = 0;
        // In order, each change once; those of one revision together.
        virtual void changed(const std::vector<Event>& events) = 0;
        // It goes on by itself; until then nothing new is known.
        virtual void trouble(const Status& status) = 0;
    };

    // Both outlive the watcher.
    Watcher(Client& client, Range range, Handler& handler);
    // Returns when no call is running or to come, within about a second.
    ~Watcher();
    Watcher(const Watcher&) = delete;
    Watcher& operator=(const Watcher&) = delete;

  private:
    void run();
    bool read_all();
    void follow(Connection& connection, size_t endpoint);
    bool take(std::string_view piece);
    bool line(std::string_view text);
    Status ended(size_t endpoint, const Answer& answer, const std::string& token);
    void complain(const Status& status);
    bool running() { return !stopping_.load(std::memory_order_relaxed) && !client_.stopped(); }

    Client& client_;
    const Range range_;
    Handler& handler_;
    std::atomic<bool> stopping_ = false;

    // Of the thread alone.
    Revision next_ = 0;    // the first revision that is not yet known; 0: everything is to be read
    std::string partial_;  // a line that has not wholly come
    Status problem_;       // why the stream was ended here
    bool followed_ = false;
    std::chrono::milliseconds pause_{0};
    std::thread thread_;
};

}  // namespace fabric::etcd
