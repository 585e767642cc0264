// A connection between a client and a target, whatever carries it: messages with credits, and data that moves straight
// between the owners' memories. There are two ways of moving it, and an owner asks which one a connection has:
//   inline (xds/transport/tcp): data follows its message; the receiver fetches or skips it before the next message.
//   by access (xds/transport/verbs): the client exposes memory for one request; the target moves data into it before
//     the answer, or out of it before the work; messages carry none.
//
// Everything happens on the connection's reactor thread.
#pragma once

#include <sys/uio.h>

#include <span>
#include <vector>

#include "xds/memory/registration_cache.h"
#include "xds/protocol/codec.h"
#include "xds/transport/reactor.h"

namespace fabric::xds::transport {

// What waits in a connection; the fields are the connection's own.
struct Queued {
    enum class Kind : uint8_t { message, fetch, end_of_access };
    explicit Queued(Kind what) : kind(what) {}

    const Kind kind;
    bool access_given = false;  // the memory window of the message is bound
    int slot = -1;              // the message's copy in registered memory
    size_t moved = 0;           // bytes of data that are on their way
    uint64_t last = 0;          // its last work request
    Queued* next = nullptr;
};

// Memory of this side that the peer may use while one request is unanswered. Embedded in the request's owner, which
// keeps it and the memory until ended().
struct Exposure : Queued {
    Exposure() : Queued(Kind::end_of_access) {}

    // Set by expose(): what the request has to say, whether its answer may invalidate the rkey, and the queue that the
    // request has to take.
    wire::Segment segment;
    bool by_window = false;
    unsigned queue = 0;
    // Called once after end_access(), perhaps from within: the peer cannot reach the memory any more.
    void (*ended)(Exposure&) = nullptr;

    // The connection's own.
    memory::RegistrationCache::Lease lease;
    uint64_t registration = 0;
    struct VerbsWindow* window = nullptr;
    size_t index = 0;
};

// A message on its way out, with its data; embedded in the owner's own object, and usable again after sent().
struct Send : Queued {
    Send() : Queued(Kind::message) {}

    wire::Header header;           // request, credits and data_length are the owner's to fill
    std::vector<std::byte> bytes;  // the encoded message; its capacity is kept from use to use
    // Data that goes with the message (header.data_length bytes of it), at most max_iov parts; it must stay until
    // sent(). By access: each part within one block of a buffer pool.
    const iovec* iov = nullptr;
    int iov_count = 0;
    // By access alone. Where the data goes in the peer's memory: at least data_length bytes, to stay until sent().
    std::span<const wire::Segment> segments;
    // The rkey that the message invalidates at the peer; 0: none.
    uint32_t invalidate = 0;
    // The memory that this request lends.
    Exposure* exposure = nullptr;
    // Of a request without exposure: any, below queues(). Of an answer: that of its request.
    unsigned queue = 0;
    // Called once: the data and this object are the owner's again. ok: it has left (TCP) or arrived (RDMA), or why the
    // connection ended.
    void (*sent)(Send&, const Status&) = nullptr;
};

// Data of the peer on its way in; embedded.
struct Fetch : Queued {
    Fetch() : Queued(Kind::fetch) {}

    // Where it goes: room for as many bytes as the message announced. By access: each part within one block of a pool.
    const iovec* iov = nullptr;
    int iov_count = 0;
    // By access alone. Where it lies in the peer's memory; stays until fetched(). The queue is that of the message.
    std::span<const wire::Segment> segments;
    unsigned queue = 0;
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

    // Encodes `body` into send.bytes and queues the message. An error (a field above its limits, EMSGSIZE: more than
    // the peer takes, no credit left, the connection closing) means that nothing was queued and sent() will not be
    // called.
    Status send(Send& send, const wire::Body& body);
    // Inline: data of the message that on_message() brought last. By access: from the segments, at any time.
    virtual void fetch(Fetch& fetch) = 0;
    // Inline: throws that data away.
    virtual void skip() = 0;
    // Begins to close: whatever is queued or in progress ends with `why`, then on_closed() follows (never from within
    // this call). Later calls do nothing.
    virtual void close(const Status& why) = 0;
    bool closing() const { return closing_; }

    // By access alone: gives the peer access to [address, address + length) for one request, whose Send then names the
    // exposure. An error: nothing was exposed.
    virtual Status expose(Exposure& exposure, const memory::Place& place, const void* address, size_t length,
                          memory::Access access);
    // The request was answered, or not sent after all. A connection that closes does it by itself, before on_closed().
    virtual void end_access(Exposure& exposure);

    // Messages that need a credit and that may be sent now.
    uint32_t credits() const { return credits_; }
    // Messages with a credit that the peer may still send: granted by us, not used.
    uint32_t granted() const { return granted_; }
    // Who the peer is, for messages to people.
    virtual const std::string& peer() const = 0;
    // True: data travels inline with messages; false: by access to exposed memory.
    virtual bool carries_data_inline() const = 0;
    // The longest message that can be sent, header and body, in bytes.
    virtual size_t message_limit() const { return wire::max_message; }
    virtual unsigned queues() const { return 1; }
    // During on_message(): the queue that the message came over.
    unsigned arrived_over() const { return arrived_over_; }

  protected:
    // Puts an encoded message into the queue.
    virtual void enqueue(Send& send) = 0;
    // Decodes and counts an arrived message and hands it to the owner. Error: the peer broke a rule; close.
    Status deliver(const wire::HeaderBytes& header, wire::Bytes body, unsigned queue = 0);

    bool closing_ = false;

  private:
    Reactor& reactor_;

  protected:
    Owner& owner_;

  private:
    uint32_t credits_ = 0;
    uint32_t granted_ = 0;
    unsigned arrived_over_ = 0;
};

// A connection on its way: to be made by one of the transports' dials. On the reactor's thread.
class DialOwner {
  public:
    virtual ~DialOwner() = default;
    // Called once, never from within the dial's constructor. The dial may be destroyed after the call, not in it.
    virtual void on_dialed(Result<std::unique_ptr<Connection>> connection) = 0;
};
class Dial {
  public:
    // Only after on_dialed().
    virtual ~Dial() = default;
    // on_dialed() follows, with `why` unless the connection was there already.
    virtual void cancel(const Status& why) = 0;
};

}  // namespace fabric::xds::transport
