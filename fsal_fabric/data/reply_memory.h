// Buffers for READ replies, shared fairly between connections.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>

#include "common/io/buffer_pool.h"

namespace fabric::fsal {

struct Account;

// A reply's buffer is held until its bytes are sent, so clients that do not read their replies would take all of them.
// A connection may therefore hold at most a 32nd of what is free (the limit sinks as memory fills up, and something
// is left for those that come new); what it asks for beyond waits until replies of its own are sent. Whoever holds
// nothing gets up to an eighth of what is free, at least 64 KiB, at once: a READ may be answered short. Only when all
// is taken, by more than a hundred greedy connections at 64 MiB, does a new one wait until one of these is served or
// ended. Thread safe.
class ReplyMemory {
  public:
    // One READ that wants a buffer; embedded in the call's object.
    struct Ticket {
        size_t bytes = 0;
        // Called once if take() returned false, from a thread that released memory; it must hand the work on. `buffer`
        // is set (null: the kernel has no memory), and holds at least `granted_bytes`, which may be less than `bytes`.
        void (*granted)(Ticket&) = nullptr;
        io::BufferPool::Buffer* buffer = nullptr;
        size_t granted_bytes = 0;

        // The memory's own.
        ReplyMemory* memory = nullptr;
        Account* account = nullptr;
        Ticket* next = nullptr;
        struct PoolTicket : io::BufferPool::Ticket {
            ReplyMemory::Ticket* owner = nullptr;
        } pool_ticket;
    };

    explicit ReplyMemory(io::BufferPool& pool);
    ~ReplyMemory();

    // `connection`: any pointer that tells connections apart. True: the buffer is there. False: granted() will follow.
    bool take(Ticket& ticket, const void* connection);
    // The whole of `bytes` if it can be had at once, else null.
    io::BufferPool::Buffer* try_take(size_t bytes, const void* connection);
    static void release(io::BufferPool::Buffer* buffer);
    // In place of one that a disk does not give back, and that stays the connection's until it does; null: no memory.
    io::BufferPool::Buffer* replace(size_t bytes);

  private:
    Account& find(const void* connection);
    size_t allowed(const Account& account, size_t bytes) const;
    bool obtain(Ticket& ticket);
    static void pool_granted(io::BufferPool::Ticket& from_pool);
    void obtained(Ticket& ticket);
    void wake(Account& account, size_t returned);

    io::BufferPool& pool_;
    std::unique_ptr<Account[]> accounts_;
};

}  // namespace fabric::fsal
