// What a caller asked for (Operation) and the messages that it takes (Piece). Both live on the context's reactor thread
// from the moment they are posted until done().
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "xds/client/include/xds.h"
#include "xds/memory/kind.h"
#include "xds/transport/connection.h"

namespace fabric::xds::client {

class Context;
class File;
class Operation;
class Stream;
struct Staging;

// A caller's thread waits on its own; it outlives every operation that it waits for.
class Waiting {
  public:
    void begin() { over_ = false; }
    void end();
    void wait();

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool over_ = false;
};

// One message in flight; a stream has as many as it may have credits, and uses them again.
struct Piece {
    template <typename Base>
    struct Part : Base {
        Piece* piece = nullptr;
    };
    Part<transport::Send> send;
    Part<transport::Fetch> fetch;
    Part<transport::Exposure> exposure;
    Stream* stream = nullptr;
    Operation* operation = nullptr;
    uint32_t index = 0;       // in its stream
    uint32_t generation = 0;  // part of the request's number: a late reply of an earlier use is recognised
    bool sending = false;     // the kernel may still read its memory
    bool answered = false;    // the reply came, all of it or none
    bool exposed = false;     // the peer may still reach its memory
    Status status;            // of the answer
    bool by_access = false;   // its data moves by RDMA
    // Of data operations.
    uint64_t offset = 0;  // in the file
    size_t length = 0;    // bytes asked
    size_t got = 0;       // bytes moved
    uint32_t data_crc = 0;
    bool has_crc = false;
    Staging* staging = nullptr;
    iovec part{};
    size_t first = 0, last = 0;  // of a batch: its files
    std::vector<iovec> parts;
    Piece* next = nullptr;
};

// Thread rules: fields are set before submit(); then all is the reactor's until done() has been called.
class Operation {
  public:
    Operation() { post_.operation = timer_.operation = this; }
    virtual ~Operation() = default;
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;

    // ---- on the reactor's thread ----
    // Called once, before anything else.
    virtual void begin() {}
    // What has to stay alive while the end of a message is handled.
    virtual std::shared_ptr<void> keep_alive() { return nullptr; }
    // True: not submitted to a context, but sent by others in the course of theirs; done() is not called.
    virtual bool is_internal() const { return false; }
    // True: there is another message to send.
    virtual bool has_more() const = 0;
    // The file whose handle a message needs; null: none.
    virtual File* file() const { return nullptr; }
    // True: it gains from more than one connection.
    virtual bool is_large() const { return false; }
    // Sends the next message. EAGAIN: not now (no staging memory); the context tries again when something is finished.
    virtual Status send_next(Stream& stream, Piece& piece) = 0;
    // The answer to a message came; an error answer stands in piece.status instead. Data, if any, goes where
    // piece.fetch.iov says, or away when it is null. A wrong answer: set piece.status with EPROTO.
    virtual void answered(Piece& piece, const wire::Header& header, const wire::Body& body) = 0;
    // The piece is over: its answer and its data are here, or piece.status says why not. Its memory is free again.
    virtual void piece_over(Piece& piece) = 0;
    // Called once, before done().
    virtual void ending() {}
    // Called once, when no piece is in flight and none will follow. The last touch: the operation may be gone after it.
    // As it stands it wakes who waits in Context::run().
    virtual void done();

    // No further messages; those in flight end as they do. The first error stays.
    void fail(Status status);
    bool failed() const { return !outcome_.ok(); }
    const Status& status() const { return outcome_; }

    unsigned in_flight = 0;  // pieces, and copies that belong to none
    std::chrono::milliseconds limit{30'000};

  private:
    friend class Context;
    template <typename Base>
    struct Part : Base {
        Operation* operation = nullptr;
    };
    Part<transport::Task> post_;
    Part<transport::Timer> timer_;
    Context* context_ = nullptr;
    Waiting* waiting_ = nullptr;
    Status outcome_;
    bool queued_ = false;  // in the context's list
    Operation* previous_ = nullptr;
    Operation* next_ = nullptr;
};

}  // namespace fabric::xds::client
