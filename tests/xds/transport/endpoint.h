// One end of a connection, as the transport tests use it: records what comes, lends memory for data, and can be awaited
// from the test's thread. Where data does not travel inline, requests to read and write lend memory as libxds does, so
// that a test is written once for both.
#pragma once

#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <string>

#include "xds/transport/connection.h"

namespace fabric::xds::transport {

struct Arrived {
    wire::Header header;
    std::string text;  // the body as print() gives it
    std::string data;
};

class Endpoint : public Owner {
  public:
    // Makes a connection and hands it over, at once or later. On the reactor's thread.
    using Ready = std::function<void(Result<std::unique_ptr<Connection>>)>;
    using Make = std::function<void(Reactor&, Owner&, Ready)>;

    explicit Endpoint(Reactor& reactor);
    // Closes and waits.
    ~Endpoint() override;

    void begin(const Make& make);
    // Waits for the connection that begin() began to make. Not ok: why there is none.
    Status connected();
    void start(const Make& make);
    // Sends from the reactor's thread and waits until the message has left. `parts`: the lengths of the iovec's parts.
    // A read or write lends memory, for what the read asks or with the write's data; over TCP it does not.
    Status send(const wire::Body& body, const std::string& data = {}, uint16_t credits = 0,
                const std::vector<size_t>& parts = {});
    // Queues without waiting.
    Status post(const wire::Body& body, const std::string& data = {}, uint16_t credits = 0,
                const std::vector<size_t>& parts = {});
    void close();
    // Waits (20 s at most) for the next message that is complete with its data.
    Result<Arrived> next();
    // Waits for on_closed() and gives its reason.
    Status closed();
    size_t credits();
    size_t sends_in_progress();
    // Runs on the reactor's thread with the connection, while it lives.
    void with_connection(const std::function<void(Connection&)>& call);

    // Numbers of the requests that it sends.
    uint64_t next_request = 7;
    // How data is taken: parts of these lengths (then the rest); empty: one part.
    std::vector<size_t> fetch_parts;
    // Data is not taken before release() is called, which waits for it to come. Inline data alone.
    bool hold_data = false;
    void release();
    // Skips data instead.
    bool skip_data = false;
    // Called on the reactor's thread when a message comes.
    std::function<void(Connection&)> on_each;
    // As a target: reads are answered with data of this length that random_data() makes of the request's number, in
    // parts of serve_parts; writes with their length, when their data has been fetched.
    bool serves = false;
    std::vector<size_t> serve_parts;
    static std::string random_data(size_t length, uint64_t seed);

    void on_message(Connection& connection, const wire::Header& header, const wire::Body& body) override;
    void on_credits(Connection&) override {}
    void on_closed(Connection& connection, const Status& why) override;

  private:
    struct Outgoing;
    struct Incoming;
    struct Lent;
    Status post_here(const wire::Body& body, const std::string& data, uint16_t credits,
                     const std::vector<size_t>& parts, uint64_t request, unsigned queue,
                     const std::vector<wire::Segment>& segments);
    Status lend(Outgoing& send, wire::Body& body, const std::string& data);
    void take_by_access(Connection& connection, const wire::Header& header, const wire::Body& body);
    void serve(Connection& connection, const wire::Header& header, const wire::Body& body);
    void fetched(Incoming& incoming);
    char* room(size_t length);
    void arrived(Arrived message);
    bool wait(const std::function<bool()>& condition, std::unique_lock<std::mutex>& lock);

    Reactor& reactor_;
    Make make_;  // keeps what it makes connections with
    std::unique_ptr<Connection> connection_;
    Status not_connected_;
    bool made_ = false;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Arrived> arrived_;
    std::list<std::unique_ptr<Outgoing>> outgoing_;
    std::list<std::unique_ptr<Lent>> lent_;
    std::unique_ptr<Incoming> incoming_;
    std::list<std::unique_ptr<Incoming>> fetching_;
    // Memory for data, aligned as a buffer pool's blocks are, used round and round.
    struct Free {
        void operator()(char* memory) const { std::free(memory); }
    };
    std::unique_ptr<char, Free> memory_;
    memory::Place place_;  // kept, so that windows are used where the device has them
    size_t used_ = 0;
    bool held_ = false;  // a message's data waits for release()
    bool closed_ = false;
    Status why_;
};

}  // namespace fabric::xds::transport
