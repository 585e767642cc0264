// Operations of a disk that whoever waits for them can leave behind, should the disk hang.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "common/io/buffer_pool.h"
#include "common/io/engine.h"
#include "common/result.h"

namespace fabric::store {

class Transfers;

// The kernel owns what it moves until it says so, and nobody can take that back: a transfer that is left keeps what it
// has, and its memory goes back when the disk has answered after all.
//
// One of these is in use from Transfers::take() until give_back(), which Transfers does itself where it was left.
class Transfer : public io::Request {
  public:
    // Set by who starts it, as the request's own fields are; `complete` is ours.
    const char* point = "";              // fault point of its end, without the disk's name
    void (*ended)(Transfer&) = nullptr;  // on a lane's thread
    // On the thread that leaves it, in place of ended(): the owner goes on without it and does not touch it again.
    // Null: it is not left.
    void (*left)(Transfer&) = nullptr;
    void* owner = nullptr;
    std::vector<iovec> parts;     // what `iov` is to be
    io::LentBuffer buffer;        // goes back with it
    std::shared_ptr<void> keeps;  // what else is to stay until it ends
    // A buffer of its reader's, told of when it is the reader's again.
    void (*release)(void*) = nullptr;
    void* released = nullptr;

  private:
    friend class Transfers;
    enum Phase : uint64_t {
        idle,
        bound,    // under way, not to be left
        running,  // under way
        leaving,
        over,
        gone,  // left
    };
    static constexpr unsigned phase_bits = 3;

    Transfers* transfers_ = nullptr;
    Transfer* next_free_ = nullptr;
    // When it began in seconds, and the phase: compared as one, so that one which ended meanwhile is not left.
    std::atomic<uint64_t> state_{idle};
};

// Of one disk. Thread safe.
class Transfers {
  public:
    explicit Transfers(io::Engine& engine, std::string_view name) : engine_(engine), name_(name) {}
    // Waits for the disk.
    ~Transfers();

    Transfer& take();
    // As one that was just taken.
    void give_back(Transfer& transfer);
    // `parts` are what is moved.
    void start(Transfer& transfer);
    // Waits for it, and gives it back. `what` it is, for errors. ETIMEDOUT: it was left, and so was what it keeps.
    Status run(Transfer& transfer, std::string_view what);
    // Leaves those that have been under way for so many seconds. Their left() is called before this returns.
    void leave(unsigned seconds);
    // Some that were left have not come back.
    bool any_left() const { return left_.load() != 0; }

  private:
    static void complete(io::Request& request);
    static uint64_t now();
    void end(Transfer& transfer);
    void come_back(Transfer& transfer);

    io::Engine& engine_;
    const std::string name_;
    std::atomic<size_t> left_{0};
    std::atomic<size_t> in_use_{0};
    std::mutex mutex_;
    std::vector<std::unique_ptr<Transfer>> all_;
    Transfer* free_ = nullptr;
};

}  // namespace fabric::store
