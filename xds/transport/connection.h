// A connection between a client and a target, whatever carries it: messages with credits, and data that moves straight
// between the wire and the owner's memory. xds/transport/tcp carries data inline, behind its message; an RDMA transport
// moves it by one-sided operations on the memory that the peer's request names, before it sends (or after it received)
// the message. Owners are written once for both.
//
// Everything happens on the connection's reactor thread.
#pragma once

#include <sys/uio.h>

#include <vector>

#include "xds/protocol/codec.h"
#include "xds/transport/reactor.h"

namespace fabric::xds::transport {

// A message on its way out, with its data; embedded in the owner's own object, and usable again after sent().
struct Send {
    wire::Header header;           // request, credits and data_length are the owner's to fill
    std::vector<std::byte> bytes;  // the encoded message; its capacity is kept from use to use
    // Data that goes with the message (header.data_length bytes of it), at most max_iov parts; it must stay until
    // sent().
    const iovec* iov = nullptr;
    int iov_count = 0;
    // Where it goes in the peer's memory; over TCP empty and unused.
    wire::List<wire::Segment> segments;
    // Called once: the data and this object are the owner's again. ok, or why the connection ended.
    void (*sent)(Send&, const Status&) = nullptr;

    Send* next = nullptr;  // the connection's own
};

// Data of the peer on its way in; embedded.
struct Fetch {
    // Where it goes: room for as many bytes as the message announced.
    const iovec* iov = nullptr;
    int iov_count = 0;
    // Where it lies in the peer's memory; over TCP empty and unused.
    wire::List<wire::Segment> segments;
    // Called once: the memory is the owner's again. ok: all bytes are there.
    void (*fetched)(Fetch&, const Status&) = nullptr;
};

class Connection;

// Callbacks of a connection.
class Owner {
  public:
    virtual ~Owner() = default;
    // A message came. `body` is valid during the call. With header.data_length > 0 its data has not been taken off the
    // wire: the owner calls fetch() or skip(), now or later, and no other message comes before that is done.
    virtual void on_message(Connection& connection, const wire::Header& header, const wire::Body& body) = 0;
    // The peer granted credits.
    virtual void on_credits(Connection& connection) = 0;
    // Called once, as the last callback: nothing that was handed over is in use any more. The owner may destroy the
    // connection in it.
    virtual void on_closed(Connection& connection, const Status& why) = 0;
};

class Connection {
  public:
    Connection(Reactor& reactor, Owner& owner) : reactor_(reactor), owner_(owner) {}
    virtual ~Connection() = default;
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    Reactor& reactor() const { return reactor_; }

    // Encodes `body` into send.bytes and queues the message. An error (a field above its limits, no credit left, the
    // connection closing) means that nothing was queued and sent() will not be called.
    Status send(Send& send, const wire::Body& body);
    // Data of the message that on_message() brought last.
    virtual void fetch(Fetch& fetch) = 0;
    // Throws that data away.
    virtual void skip() = 0;
    // Begins to close: whatever is queued or in progress ends with `why`, then on_closed() follows (never from within
    // this call). Later calls do nothing.
    virtual void close(const Status& why) = 0;
    bool closing() const { return closing_; }

    // Messages that need a credit and that may be sent now.
    uint32_t credits() const { return credits_; }
    // Messages with a credit that the peer may still send: granted by us, not used.
    uint32_t granted() const { return granted_; }
    // Who the peer is, for messages to people.
    virtual const std::string& peer() const = 0;
    // True: data travels inline with messages (TCP).
    virtual bool carries_data_inline() const = 0;

  protected:
    // Puts an encoded message into the queue.
    virtual void enqueue(Send& send) = 0;
    // Decodes and counts an arrived message and hands it to the owner. Error: the peer broke a rule; close.
    Status deliver(const wire::HeaderBytes& header, wire::Bytes body);

    bool closing_ = false;

  private:
    Reactor& reactor_;

  protected:
    Owner& owner_;

  private:
    uint32_t credits_ = 0;
    uint32_t granted_ = 0;
};

}  // namespace fabric::xds::transport
