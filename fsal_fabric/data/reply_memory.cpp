#include "fsal_fabric/data/reply_memory.h"

#include <algorithm>
#include <cstdint>

namespace fabric::fsal {

namespace {
constexpr unsigned account_bits = 14;
constexpr size_t account_count = size_t{1} << account_bits;
constexpr size_t probes = 8;
constexpr size_t least = 64 << 10;  // what a connection that holds nothing gets when memory is short

// Spreads addresses, near ones too (they would share accounts), by the golden ratio: Knuth's multiplicative hashing.
size_t place_of(const void* connection) {
    return reinterpret_cast<uintptr_t>(connection) * UINT64_C(0x9e3779b97f4a7c15) >> (64 - account_bits);
}
}  // namespace

// What one connection holds, and its READs that wait. An account that holds nothing is free for another connection; in
// the rare case that none is free near a connection's place, two share one.
struct Account {
    std::mutex mutex;
    const void* connection = nullptr;
    ReplyMemory* memory = nullptr;
    size_t held = 0;
    ReplyMemory::Ticket* first = nullptr;
    ReplyMemory::Ticket* last = nullptr;

    bool in_use() const { return held != 0 || first != nullptr; }
};

ReplyMemory::ReplyMemory(io::BufferPool& pool) : pool_(pool), accounts_(std::make_unique<Account[]>(account_count)) {
    for (size_t i = 0; i < account_count; ++i) accounts_[i].memory = this;
}

ReplyMemory::~ReplyMemory() = default;

// Returns it locked.
Account& ReplyMemory::find(const void* connection) {
    size_t start = place_of(connection);
    Account* free = nullptr;
    for (size_t i = 0; i < probes; ++i) {
        Account& account = accounts_[(start + i) % account_count];
        std::unique_lock lock(account.mutex);
        if (account.connection == connection) {
            lock.release();
            return account;
        }
        if (free == nullptr && !account.in_use()) free = &account;
    }
    Account& account = free != nullptr ? *free : accounts_[start];
    account.mutex.lock();
    if (!account.in_use()) account.connection = connection;
    return account;
}

size_t ReplyMemory::allowed(const Account& account, size_t bytes) const {
    size_t free = pool_.limit() - std::min(pool_.lent(), pool_.limit());
    if (account.held + bytes <= free / 32) return bytes;
    if (account.held != 0) return 0;
    return std::min(bytes, std::max(least, io::BufferPool::affordable(free / 8)));
}

bool ReplyMemory::take(Ticket& ticket, const void* connection) {
    Account& account = find(connection);
    std::unique_lock lock(account.mutex, std::adopt_lock);
    ticket.memory = this;
    ticket.account = &account;
    ticket.next = nullptr;
    ticket.granted_bytes = account.first == nullptr ? allowed(account, ticket.bytes) : 0;
    if (ticket.granted_bytes == 0) {
        (account.last != nullptr ? account.last->next : account.first) = &ticket;
        account.last = &ticket;
        return false;
    }
    account.held += ticket.granted_bytes;
    lock.unlock();
    return obtain(ticket);
}

io::BufferPool::Buffer* ReplyMemory::try_take(size_t bytes, const void* connection) {
    Account& account = find(connection);
    std::unique_lock lock(account.mutex, std::adopt_lock);
    if (account.first != nullptr || allowed(account, bytes) != bytes) return nullptr;
    io::BufferPool::Buffer* buffer = pool_.try_take(bytes);
    if (buffer == nullptr) return nullptr;
    account.held += bytes;
    buffer->account = &account;
    buffer->charged = bytes;
    return buffer;
}

// The account is charged already. True: ticket.buffer is set.
bool ReplyMemory::obtain(Ticket& ticket) {
    ticket.pool_ticket.owner = &ticket;
    ticket.pool_ticket.bytes = ticket.granted_bytes;
    ticket.pool_ticket.granted = pool_granted;
    if (!pool_.take(ticket.pool_ticket)) return false;
    obtained(ticket);
    return true;
}

void ReplyMemory::pool_granted(io::BufferPool::Ticket& from_pool) {
    Ticket& ticket = *static_cast<Ticket::PoolTicket&>(from_pool).owner;
    ticket.memory->obtained(ticket);
    ticket.granted(ticket);
}

void ReplyMemory::obtained(Ticket& ticket) {
    ticket.buffer = ticket.pool_ticket.buffer;
    if (ticket.buffer == nullptr) return wake(*ticket.account, ticket.granted_bytes);
    ticket.buffer->account = ticket.account;
    ticket.buffer->charged = ticket.granted_bytes;
}

void ReplyMemory::release(io::BufferPool::Buffer* buffer) {
    if (buffer->account == nullptr) return io::BufferPool::give_back(buffer);
    auto& account = *static_cast<Account*>(buffer->account);
    size_t returned = buffer->charged;
    io::BufferPool::give_back(buffer);
    account.memory->wake(account, returned);
}

io::BufferPool::Buffer* ReplyMemory::replace(size_t bytes) {
    io::BufferPool::Buffer* buffer = pool_.try_take(bytes);
    if (buffer != nullptr) buffer->account = nullptr;
    return buffer;
}

// Takes `returned` off the account and serves those that wait in it, as far as it goes.
void ReplyMemory::wake(Account& account, size_t returned) {
    Ticket* served = nullptr;
    Ticket** end = &served;
    {
        std::lock_guard lock(account.mutex);
        account.held -= returned;
        while (account.first != nullptr) {
            Ticket& ticket = *account.first;
            ticket.granted_bytes = allowed(account, ticket.bytes);
            if (ticket.granted_bytes == 0) break;
            account.held += ticket.granted_bytes;
            account.first = ticket.next;
            if (account.first == nullptr) account.last = nullptr;
            ticket.next = nullptr;
            *end = &ticket;
            end = &ticket.next;
        }
    }
    while (served != nullptr) {
        Ticket& ticket = *served;
        served = ticket.next;
        if (obtain(ticket)) ticket.granted(ticket);
    }
}

}  // namespace fabric::fsal
