// HTTP to one etcd member at a time, by libcurl: one handle, whose connections are kept for the next call.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace fabric::etcd {

struct Options {
    std::vector<std::string> endpoints;  // "http://host:port" or "https://host:port", without a path
    std::string user;                    // empty: etcd has no users
    std::string password;
    std::string ca;           // PEM files, for https; empty: the system's authorities, and no certificate of our own
    std::string certificate;  // our own, with ...
    std::string key;          // ... its key
    std::chrono::milliseconds connect_limit{2000};
    size_t longest_reply = size_t{16} << 20;          // bytes
    std::chrono::milliseconds watch_silence{15'000};  // a watch without a word for so long is begun again elsewhere
};

// Code::config: names what is wrong.
Status check(const Options& options);

struct Answer {
    Status status;      // of the transport; errors name the endpoint
    bool sent = false;  // whether etcd may have got the request
    long http = 0;      // HTTP's status
    std::string body;
};

// One thread at a time.
class Connection {
  public:
    static Result<std::unique_ptr<Connection>> make(const Options& options);
    ~Connection();
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    struct Post {
        std::string url;
        std::string_view body;
        std::string_view token;  // empty: none
        std::chrono::milliseconds limit{0};
        // libcurl repeats by itself what went out on a kept connection that turns out to be dead; not on a new one.
        bool once = false;
    };
    Answer post(const Post& post);

    // Takes pieces of the body as they come; false ends the call. `go_on` is asked about once a second.
    struct Stream {
        std::function<bool(std::string_view)> piece;
        std::function<bool()> go_on;
    };
    // `limit` is how long the stream may be silent. The answer's body is there when HTTP's status is not 200.
    Answer stream(const Post& post, const Stream& stream);

  private:
    explicit Connection(const Options& options) : options_(options) {}

    struct Taking;
    Answer perform(const Post& post, Taking& taking);
    Status settings(const Post& post, Taking& taking);

    const Options& options_;
    void* handle_ = nullptr;  // libcurl's
};

}  // namespace fabric::etcd
