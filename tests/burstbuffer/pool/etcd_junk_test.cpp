// Servers that are no etcd: each answer is refused by endpoint and key, and no call outlives its limit.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "burstbuffer/pool/etcd/client.h"
#include "burstbuffer/pool/etcd/watcher.h"
#include "common/unique_fd.h"

namespace fabric::etcd {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

std::string http(const std::string& body, const std::string& status = "200 OK") {
    return "HTTP/1.1 " + status +
           "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

// Answers each connection's first request with fixed bytes, then closes, or stays silent and open.
class Server {
  public:
    // `stream`: the answer to who wants to watch; empty: the same one.
    explicit Server(std::string answer, bool then_close = true, std::string stream = {})
        : answer_(std::move(answer)), stream_(stream.empty() ? answer_ : std::move(stream)), close_(then_close) {
        fd_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof(address);
        ::bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), size);
        ::listen(fd_.get(), 16);
        ::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size);
        url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
        thread_ = std::thread([this] { run(); });
    }
    ~Server() {
        stopping_ = true;
        thread_.join();
    }
    const std::string& url() const { return url_; }
    int requests() const { return requests_; }

  private:
    void run() {
        std::vector<UniqueFd> silent;
        while (!stopping_) {
            pollfd one{fd_.get(), POLLIN, 0};
            if (::poll(&one, 1, 20) <= 0) continue;
            UniqueFd peer(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
            std::string request(65536, '\0');
            pollfd readable{peer.get(), POLLIN, 0};
            if (::poll(&readable, 1, 1000) <= 0 || ::recv(peer.get(), request.data(), request.size(), 0) <= 0) continue;
            ++requests_;
            const std::string& answer = request.starts_with("POST /v3/watch") ? stream_ : answer_;
            for (size_t sent = 0; sent < answer.size() && !stopping_;) {
                ssize_t size = ::send(peer.get(), answer.data() + sent, answer.size() - sent, MSG_NOSIGNAL);
                if (size <= 0) break;
                sent += static_cast<size_t>(size);
            }
            if (!close_) silent.push_back(std::move(peer));
        }
    }

    const std::string answer_;
    const std::string stream_;
    const bool close_;
    UniqueFd fd_;
    std::string url_;
    std::atomic<bool> stopping_ = false;
    std::atomic<int> requests_ = 0;
    std::thread thread_;
};

std::unique_ptr<Client> client_of(const std::vector<std::string>& endpoints) {
    Options options;
    options.endpoints = endpoints;
    options.longest_reply = 1 << 20;
    return std::move(*Client::make(options));
}

TEST(Junk, IsRefusedByEndpointAndKey) {
    const std::pair<std::string, const char*> all[] = {
        {http(""), "no JSON"},
        {http("<html>502</html>"), "no JSON"},
        {http("<html>502</html>", "502 Bad Gateway"), "HTTP status 502"},
        {http("{}"), "header.revision is missing"},
        {http(R"({"header":{"revision":"1"},"kvs":[{"key":"!!"}]})"), "key is not in base64"},
        {http(std::string(100'000, '[')), "no JSON"},
        {http(std::string(2 << 20, ' ')), "too long"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", "etcd http"},
        {"\x16\x03\x01", "etcd http"},
        {"", "etcd http"},
    };
    for (const auto& [answer, complaint] : all) {
        Server server(answer);
        auto client = client_of({server.url()});
        Result<Reply> reply = client->call(Range{"/k/7", "", 0, 0}, 300ms);
        ASSERT_FALSE(reply.ok()) << answer.substr(0, 80);
        EXPECT_THAT(reply.status().message(), HasSubstr(complaint)) << answer.substr(0, 80);
        EXPECT_THAT(reply.status().message(), HasSubstr(server.url())) << answer.substr(0, 80);
        EXPECT_THAT(reply.status().message(), HasSubstr("/k/7")) << answer.substr(0, 80);
    }
}

TEST(Junk, AChangeIsSentOnceAndMayHaveBeenDone) {
    for (const std::string& answer :
         {std::string(), http("{"), http("{}", "500 Internal Server Error"),
          http(R"({"message":"etcdserver: request timed out","code":14})", "503 Unavailable")}) {
        Server server(answer), other(answer);
        auto client = client_of({server.url(), other.url()});
        Result<Reply> reply = client->call(Put{"/k", "v", 0}, 3s);
        EXPECT_FALSE(reply.ok());
        EXPECT_TRUE(reply.status().code() == Code::timeout || reply.status().code() == Code::corrupt);
        EXPECT_EQ(server.requests() + other.requests(), 1) << answer;
    }
}

TEST(Junk, WhatWasSurelyNotDoneIsTriedElsewhere) {
    Server refusing(http(R"({"message":"etcdserver: no leader","code":14})", "503 Unavailable"));
    Server taking(http(R"({"header":{"revision":"4"}})"));
    auto client = client_of({"http://127.0.0.1:1", refusing.url(), taking.url()});
    Result<Reply> reply = client->call(Put{"/k", "v", 0}, 10s);
    ASSERT_TRUE(reply.ok()) << reply.status().message();
    EXPECT_EQ(reply->revision, 4);
    EXPECT_EQ(refusing.requests(), 1);
}

TEST(Junk, AReadGoesToTheNextEndpoint) {
    Server junk(http("{}")), silent("", false);
    Server good(http(R"({"header":{"revision":"4"}})"));
    auto client = client_of({junk.url(), silent.url(), good.url()});
    Result<Reply> reply = client->call(Range{"/k", "", 0, 0}, 4s);
    ASSERT_TRUE(reply.ok()) << reply.status().message();
    EXPECT_EQ(reply->revision, 4);
}

TEST(Junk, ATokenThatWouldBeMoreThanALineIsRefused) {
    Server server(http(R"({"token":"a\r\nX: y"})"));
    Options options;
    options.endpoints = {server.url()};
    options.user = "u";
    auto client = std::move(*Client::make(options));
    Status status = client->call(Range{"/k", "", 0, 0}, 300ms).status();
    EXPECT_THAT(status.message(), HasSubstr("login"));
    EXPECT_THAT(status.message(), HasSubstr("token has characters"));
}

class Waiting : public Watcher::Handler {
  public:
    void start_from(const Listing& listing) override {
        std::lock_guard lock(mutex_);
        started_ = true;
        EXPECT_TRUE(listing.keys.empty());
    }
    void changed(const std::vector<Event>&) override { ADD_FAILURE() << "junk was taken for a change"; }
    void trouble(const Status& status) override {
        std::lock_guard lock(mutex_);
        said_ += status.message() + "\n";
        changed_.notify_all();
    }
    bool said(const std::string& what) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, 30s, [&] { return said_.find(what) != std::string::npos; });
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool started_ = false;
    std::string said_;
};

// The same answer serves as the listing that a watch begins with, and as its stream.
TEST(Junk, AWatchRefusesChangesThatWereNotAskedFor) {
    std::string other = R"("result":{"header":{"revision":"9"},"events":[{"kv":{"key":"eg==","mod_revision":"8"}}]})";
    std::string old = R"("result":{"header":{"revision":"9"},"events":[{"kv":{"key":"L2sv","mod_revision":"2"}}]})";
    std::string wrong = R"("result":{"header":{"revision":"9"},"events":[{"kv":{"key":7}}]})";
    const std::pair<std::string, const char*> all[] = {{other, "not in its place"},
                                                       {old, "not in its place"},
                                                       {wrong, "key is not in base64"},
                                                       {R"("x":1)", "result is missing"}};
    for (const auto& [stream, complaint] : all) {
        Server server(http(R"({"header":{"revision":"4"},)" + stream + "}\n"));
        auto client = client_of({server.url()});
        Waiting handler;
        Watcher watcher(*client, {"/k/", end_of_prefix("/k/"), 0, 0}, handler);
        EXPECT_TRUE(handler.said(complaint)) << stream;
        EXPECT_TRUE(handler.said("watch of /k/")) << stream;
    }
}

TEST(Junk, AWatchLineWithoutEndIsBounded) {
    Server server(http(R"({"header":{"revision":"4"}})"), true, http(std::string(2 << 20, ' ')));
    auto client = client_of({server.url()});
    Waiting handler;
    Watcher watcher(*client, {"/k/", end_of_prefix("/k/"), 0, 0}, handler);
    EXPECT_TRUE(handler.said("a message is too long"));
}

}  // namespace
}  // namespace fabric::etcd
