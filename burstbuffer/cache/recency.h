// When chunks were last asked for and how often, whether the cache has them or not: what admission and eviction decide
// by.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace fabric::cache {

// Thread safe, without locks; bounded memory: 8 bytes an entry, the oldest of a set of eight is forgotten first. Time
// is what was asked for, in bytes: a distance says how much went by between two uses of a chunk. Two chunks may rarely
// be taken for one another, or an update be lost: it only makes a guess worse.
class Recency {
  public:
    // `correlated`: uses closer together than so many bytes count as one, as the parts of a chunk that is read from one
    // end to the other do.
    Recency(size_t entries, uint64_t correlated);

    struct Seen {
        uint64_t distance = 0;  // bytes since the use before
        unsigned uses = 0;      // that counted since it came into the cache, 3 at most
    };
    // The chunk with this hash (placement::stable_hash of its key) is asked for `bytes`. What was known before, if
    // anything.
    std::optional<Seen> use(uint64_t hash, size_t bytes);
    std::optional<Seen> look(uint64_t hash) const;
    // It passed an eviction: one use less.
    void pass(uint64_t hash);
    // It left the cache: its uses are over, but not when it was last asked for.
    void leave(uint64_t hash);

    // Bytes asked for so far.
    uint64_t now() const { return now_.load(std::memory_order_relaxed); }

  private:
    // Tag (24 bits), uses (2), time of the last use that counted (38, in units of 4 KiB). 0: empty.
    static constexpr size_t ways = 8;
    using Slot = std::atomic<uint64_t>;
    struct alignas(64) Set {
        std::array<Slot, ways> slots{};
    };
    Slot* find(uint64_t hash) const;
    uint64_t distance(uint64_t slot) const;
    void set_uses(uint64_t hash, unsigned (*change)(unsigned));

    const uint64_t correlated_;
    size_t mask_ = 0;
    mutable std::vector<Set> sets_;
    std::atomic<uint64_t> now_{0};
};

}  // namespace fabric::cache
