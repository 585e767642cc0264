// etcd 3.4 over its HTTP/JSON gateway: several endpoints, users, TLS, time limits on everything. It never throws.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "burstbuffer/pool/etcd/connection.h"
#include "burstbuffer/pool/etcd/message.h"
#include "common/result.h"

namespace fabric::etcd {

struct Listing {
    std::vector<KeyValue> keys;
    Revision revision = 0;  // as of which all of them are
};

// Any thread; calls run beside each other.
class Client {
  public:
    static Result<std::unique_ptr<Client>> make(Options options);

    // Waits for the answer, for `limit` in all, whatever is tried meanwhile. An endpoint that fails is left alone for a
    // while. Reads are tried at each endpoint. What changes something is tried elsewhere only when it surely was not
    // done.
    //
    // Errors: ENOENT: there is no such lease; ESTALE: the revision is compacted; EACCES: user, password, rights or TLS;
    // ENOSPC: etcd's space; Code::timeout: no answer in time, and a change may have been done; Code::corrupt: the
    // answer is no answer (a change may have been done); Code::unavailable: no endpoint took it.
    Result<Reply> call(const Request& request, std::chrono::milliseconds limit);

    // All keys of a range as of one revision, by pages of `page` keys; E2BIG: more than `most`.
    Result<Listing> list(const Range& range, std::chrono::milliseconds limit, int64_t page = 512,
                         size_t most = 1 << 20);

    // Calls that wait end with ECANCELED, and so do later ones.
    void stop();

    const Options& options() const { return options_; }

  private:
    friend class Watcher;
    using Clock = std::chrono::steady_clock;

    struct Endpoint {
        std::string url;
        Clock::time_point rest_until{};
        std::chrono::milliseconds rest{0};
    };
    // One try at one endpoint.
    struct Try {
        Result<Reply> reply;
        bool again = false;  // it is sure that nothing was done, or it may be done twice
    };

    explicit Client(Options options);

    Try attempt(Connection& connection, size_t endpoint, const Request& request, std::chrono::milliseconds limit);
    Try judge(size_t endpoint, const Request& request, const Answer& answer, const std::string& token);
    Try refused(size_t endpoint, const Request& request, const Answer& answer, const std::string& token);
    Result<Listing> list_once(Range range, Clock::time_point end, size_t most);
    Result<std::string> token(Connection& connection, size_t endpoint, std::chrono::milliseconds limit);
    void forget_token(const std::string& token);
    std::string known_token();
    std::unique_ptr<Connection> idle_connection();
    void give_back(std::unique_ptr<Connection> connection);
    size_t choose();
    void worked(size_t endpoint);
    void failed(size_t endpoint);
    // False: stopped.
    bool pause(std::chrono::milliseconds time);
    bool stopped();
    std::string name(size_t endpoint) const { return "etcd " + options_.endpoints[endpoint]; }

    const Options options_;
    std::mutex mutex_;
    std::condition_variable stopping_changed_;
    bool stopping_ = false;
    std::vector<Endpoint> endpoints_;
    size_t preferred_ = 0;
    std::string token_;
    std::vector<std::unique_ptr<Connection>> idle_;
};

}  // namespace fabric::etcd
