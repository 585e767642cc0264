#include "burstbuffer/cache/recency.h"

#include <algorithm>
#include <bit>

namespace fabric::cache {

namespace {

constexpr unsigned unit_bits = 12, time_bits = 38, uses_bits = 2;
constexpr uint64_t time_mask = (uint64_t{1} << time_bits) - 1;
constexpr unsigned most_uses = (1U << uses_bits) - 1;

uint64_t tag_of(uint64_t hash) { return (hash >> 40) | 1; }  // never 0, so that no entry looks empty
uint64_t tag(uint64_t slot) { return slot >> (time_bits + uses_bits); }
unsigned uses(uint64_t slot) { return static_cast<unsigned>(slot >> time_bits) & most_uses; }
uint64_t time_of(uint64_t bytes) { return (bytes >> unit_bits) & time_mask; }
uint64_t make(uint64_t tag_bits, unsigned use_count, uint64_t time) {
    return (tag_bits << (time_bits + uses_bits)) | (uint64_t{use_count} << time_bits) | time;
}

}  // namespace

Recency::Recency(size_t entries, uint64_t correlated)
    : correlated_(correlated), mask_(std::bit_ceil(std::max<size_t>(1, entries / ways)) - 1), sets_(mask_ + 1) {}

Recency::Slot* Recency::find(uint64_t hash) const {
    for (Slot& slot : sets_[hash & mask_].slots) {
        if (tag(slot.load(std::memory_order_relaxed)) == tag_of(hash)) return &slot;
    }
    return nullptr;
}

uint64_t Recency::distance(uint64_t slot) const {
    return ((time_of(now()) - (slot & time_mask)) & time_mask) << unit_bits;
}

std::optional<Recency::Seen> Recency::use(uint64_t hash, size_t bytes) {
    now_.fetch_add(bytes, std::memory_order_relaxed);
    if (Slot* slot = find(hash)) {
        uint64_t before = slot->load(std::memory_order_relaxed);
        Seen seen{distance(before), uses(before)};
        if (seen.distance >= correlated_) {
            unsigned more = std::min(uses(before) + 1, most_uses);
            slot->compare_exchange_strong(before, make(tag_of(hash), more, time_of(now())), std::memory_order_relaxed);
        }
        return seen;
    }
    Slot* oldest = nullptr;
    uint64_t longest = 0;
    for (Slot& slot : sets_[hash & mask_].slots) {
        uint64_t held = slot.load(std::memory_order_relaxed);
        uint64_t age = held == 0 ? UINT64_MAX : distance(held);
        if (oldest != nullptr && age <= longest) continue;
        oldest = &slot;
        longest = age;
    }
    oldest->store(make(tag_of(hash), 0, time_of(now())), std::memory_order_relaxed);
    return std::nullopt;
}

std::optional<Recency::Seen> Recency::look(uint64_t hash) const {
    const Slot* slot = find(hash);
    if (slot == nullptr) return std::nullopt;
    uint64_t held = slot->load(std::memory_order_relaxed);
    return Seen{distance(held), uses(held)};
}

void Recency::set_uses(uint64_t hash, unsigned (*change)(unsigned)) {
    Slot* slot = find(hash);
    if (slot == nullptr) return;
    uint64_t before = slot->load(std::memory_order_relaxed);
    uint64_t after = make(tag(before), change(uses(before)), before & time_mask);
    slot->compare_exchange_strong(before, after, std::memory_order_relaxed);
}

void Recency::pass(uint64_t hash) {
    set_uses(hash, [](unsigned count) { return count == 0 ? 0 : count - 1; });
}
void Recency::leave(uint64_t hash) {
    set_uses(hash, [](unsigned) { return 0U; });
}

}  // namespace fabric::cache
