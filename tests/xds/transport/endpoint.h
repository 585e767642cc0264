// One end of a connection, as the transport tests use it: records what comes, lends memory for data, and can be awaited
// from the test's thread.
#pragma once

#include <condition_variable>
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
    using Make = std::function<std::unique_ptr<Connection>(Reactor&, Owner&)>;

    explicit Endpoint(Reactor& reactor);
    // Closes and waits.
    ~Endpoint() override;

    void start(const Make& make);
    // Sends from the reactor's thread and waits until the message has left. `parts`: the lengths of the iovec's parts.
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

    // Numbers of the requests that it sends.
    uint64_t next_request = 7;
    // How data is taken: parts of these lengths (then the rest); empty: one part.
    std::vector<size_t> fetch_parts;
    // Data is not taken before release() is called, which waits for it to come.
    bool hold_data = false;
    void release();
    // Skips data instead.
    bool skip_data = false;
    // Called on the reactor's thread when a message comes.
    std::function<void(Connection&)> on_each;

    void on_message(Connection& connection, const wire::Header& header, const wire::Body& body) override;
    void on_credits(Connection&) override {}
    void on_closed(Connection& connection, const Status& why) override;

  private:
    struct Outgoing;
    struct Incoming;
    void begin_fetch();
    bool wait(const std::function<bool()>& condition, std::unique_lock<std::mutex>& lock);

    Reactor& reactor_;
    std::unique_ptr<Connection> connection_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Arrived> arrived_;
    std::list<std::unique_ptr<Outgoing>> outgoing_;
    std::unique_ptr<Incoming> incoming_;
    bool held_ = false;  // a message's data waits for release()
    bool closed_ = false;
    Status why_;
};

}  // namespace fabric::xds::transport
