// Memory that a network card may use stays registered between requests, so that repeated I/O registers once.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <utility>

#include "xds/memory/kind.h"

namespace fabric::xds::memory {

// What a card may do with registered memory. Memory that is mapped for reading alone can only be `read`.
enum class Access : uint8_t { read, write };

// How long a registration may live: between requests, without rights for the peer (which gets a window of one request),
// or for one request, with its rights.
enum class Term : uint8_t { kept, one_request };

// Who registers: a transport, for one card.
class Registrar {
  public:
    virtual ~Registrar() = default;
    // A key of the registrar's own choice for [address, address + length). `write` includes reading.
    virtual Result<uint64_t> add(const Place& place, uintptr_t address, size_t length, Access access, Term term) = 0;
    virtual void remove(uint64_t key) = 0;
};

// Entries are found by the allocation's id, never by the address alone: memory that was freed and allocated anew at the
// same address is another allocation, and the old entry is dropped when it is met. Kinds without ids (host) are
// registered for one use, and so is what is lent for one request. Thread safe; a hit allocates nothing.
class RegistrationCache {
    struct Entry;

  public:
    struct Stats {
        uint64_t hits = 0, misses = 0, evictions = 0;
        size_t bytes = 0;  // registered now
    };

    // The registration in use; the cache keeps it at least as long as the lease lives.
    class Lease {
      public:
        Lease() = default;
        Lease(Lease&& other) noexcept : cache_(std::exchange(other.cache_, nullptr)), entry_(other.entry_) {}
        Lease& operator=(Lease&& other) noexcept {
            if (this != &other) {
                reset();
                cache_ = std::exchange(other.cache_, nullptr);
                entry_ = other.entry_;
            }
            return *this;
        }
        ~Lease() { reset(); }
        void reset();
        uint64_t key() const;
        // Where the registered range starts.
        uintptr_t start() const;

      private:
        friend class RegistrationCache;
        Lease(RegistrationCache* cache, Entry* entry) : cache_(cache), entry_(entry) {}
        RegistrationCache* cache_ = nullptr;
        Entry* entry_ = nullptr;
    };

    // `limit`: bytes registered at once; the kind's aperture limits each device beside it.
    RegistrationCache(Registrar& registrar, size_t limit) : registrar_(registrar), limit_(limit) {}
    // Every lease must be gone.
    ~RegistrationCache();
    RegistrationCache(const RegistrationCache&) = delete;
    RegistrationCache& operator=(const RegistrationCache&) = delete;

    // The whole allocation is registered when that fits, else only what was asked; an entry for `write` serves both.
    // For one request: exactly what was asked, and a registration of its own.
    // ENOSPC: it never fits, use windows of at most window(place) bytes. EBUSY: it does when leases have ended.
    Result<Lease> acquire(const Place& place, const void* address, size_t length, Access access = Access::write,
                          Term term = Term::kept);
    // Forgets everything. Every lease must be gone.
    void clear();
    // Forgets all that is registered of the allocation: now what is idle, the rest when its lease ends.
    void drop(const Kind& kind, uint64_t id);
    // The longest range that acquire() can ever register for memory like this, bytes.
    size_t window(const Place& place) const;
    Stats stats() const;

  private:
    struct Entry {
        const Kind* kind = nullptr;
        uint64_t id = 0;
        int device = -1;
        uintptr_t start = 0;
        size_t length = 0;
        uint64_t key = 0;
        unsigned users = 0;
        bool cached = false;  // otherwise it goes when its last user does
        Access access = Access::write;
    };
    using Entries = std::list<Entry>;  // most recently used first; elements stay where they are

    Entry* find(const Place& place, uintptr_t at, size_t length, Access access);
    void drop_stale(const Place& place);
    Status refusal(const Place& place, size_t length) const;
    bool make_room(const Place& place, size_t length);
    size_t used_of(const Kind* kind, int device) const;
    void release(Entry* entry);
    Entries::iterator erase(Entries::iterator entry);

    Registrar& registrar_;
    const size_t limit_;
    mutable std::mutex mutex_;
    Entries entries_;
    Stats stats_;
};

}  // namespace fabric::xds::memory
