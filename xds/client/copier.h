// Copies between host memory and that of accelerators, on a thread of their own: while one piece of a request is
// copied, others are on their way over the network.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "common/reused.h"
#include "xds/memory/kind.h"
#include "xds/transport/reactor.h"

namespace fabric::xds::client {

class Operation;
struct Staging;

// One piece of work. From add() until copied() it is the copier's.
struct Copy {
    enum class Work : uint8_t { in, out, settle };

    // What is to be done: `in` from `host` to `memory`; `out` from there to `host`; `settle` what a card wrote there.
    // Then the sum of the memory's bytes, if asked.
    Work work = Work::in;
    const memory::Kind* kind = nullptr;
    char* memory = nullptr;
    char* host = nullptr;
    size_t length = 0;
    bool wants_sum = false;
    // Called once, on the reactor's thread.
    void (*copied)(Copy&) = nullptr;

    // What came of it.
    Status status;
    uint32_t sum = 0;

    // The owner's own.
    Operation* operation = nullptr;
    Staging* staging = nullptr;
    uint64_t offset = 0;  // of the memory in its request
    size_t asked = 0;     // bytes of the piece that this is the data of
    bool has_crc = false;
    uint32_t data_crc = 0;  // as the target has it

    Copy* next = nullptr;
    Copy* next_free = nullptr;

  private:
    friend class Copier;
    struct Over : transport::Task {
        Copy* copy = nullptr;
    } over_;
};

// All but its thread's own work on the reactor's thread.
class Copier {
  public:
    // As many as `count` at once allocate nothing.
    explicit Copier(size_t count);
    ~Copier() { stop(); }
    Copier(const Copier&) = delete;
    Copier& operator=(const Copier&) = delete;

    Copy& take() { return copies_.take(); }
    void give_back(Copy& copy) { copies_.give_back(copy); }
    // Does it after those that were added before; the thread begins with the first one. EAGAIN: no thread to be had.
    Status add(transport::Reactor& reactor, Copy& copy);
    // Ends the thread, for good. Nothing may be left to do.
    void stop();

  private:
    static void work(Copy& copy);
    void main();

    transport::Reactor* reactor_ = nullptr;
    Reused<Copy> copies_;
    std::mutex mutex_;
    std::condition_variable changed_;
    Copy* first_ = nullptr;
    Copy* last_ = nullptr;
    bool ending_ = false;
    std::thread thread_;
};

}  // namespace fabric::xds::client
