#include "xds/memory/registration_cache.h"

#include <algorithm>

namespace fabric::xds::memory {

void RegistrationCache::Lease::reset() {
    if (cache_ != nullptr) std::exchange(cache_, nullptr)->release(entry_);
}
uint64_t RegistrationCache::Lease::key() const { return entry_->key; }
uintptr_t RegistrationCache::Lease::start() const { return entry_->start; }

RegistrationCache::~RegistrationCache() { clear(); }

void RegistrationCache::clear() {
    for (auto entry = entries_.begin(); entry != entries_.end();) entry = erase(entry);
}

RegistrationCache::Entries::iterator RegistrationCache::erase(Entries::iterator entry) {
    registrar_.remove(entry->key);
    stats_.bytes -= entry->length;
    return entries_.erase(entry);
}

RegistrationCache::Entry* RegistrationCache::find(const Place& place, uintptr_t at, size_t length, Access access) {
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
        if (!entry->cached || entry->kind != place.kind || entry->id != place.allocation.id || at < entry->start ||
            at - entry->start > entry->length || length > entry->length - (at - entry->start) || entry->access < access)
            continue;
        entries_.splice(entries_.begin(), entries_, entry);
        return &entries_.front();
    }
    return nullptr;
}

// Another allocation lies where these were: their memory is gone.
void RegistrationCache::drop_stale(const Place& place) {
    const Allocation& now = place.allocation;
    for (auto entry = entries_.begin(); entry != entries_.end();) {
        bool overlaps = entry->start < now.base + now.size && now.base < entry->start + entry->length;
        if (!entry->cached || entry->kind != place.kind || entry->id == now.id || !overlaps) {
            ++entry;
            continue;
        }
        entry->cached = false;
        entry = entry->users == 0 ? erase(entry) : std::next(entry);
    }
}

size_t RegistrationCache::used_of(const Kind* kind, int device) const {
    size_t used = 0;
    for (const Entry& entry : entries_)
        if (entry.kind == kind && entry.device == device) used += entry.length;
    return used;
}

bool RegistrationCache::make_room(const Place& place, size_t length) {
    size_t aperture = place.kind->aperture(place.allocation.device);
    if (length > limit_ || length > aperture) return false;
    auto fits = [&] {
        return stats_.bytes <= limit_ - length && used_of(place.kind, place.allocation.device) <= aperture - length;
    };
    for (auto entry = entries_.end(); !fits() && entry != entries_.begin();) {
        --entry;
        if (entry->users != 0) continue;
        entry = erase(entry);
        ++stats_.evictions;
    }
    return fits();
}

// Why there is no room for it.
Status RegistrationCache::refusal(const Place& place, size_t length) const {
    size_t most = window(place);
    std::string what = "registration of " + std::to_string(length) + " bytes of " + std::string(place.kind->name()) +
                       " memory: only " + std::to_string(most) + " bytes can be registered at once";
    if (length <= most) return {Code::unavailable, EBUSY, what + ", and others are in use"};
    return {Code::unavailable, ENOSPC, what};
}

Result<RegistrationCache::Lease> RegistrationCache::acquire(const Place& place, const void* address, size_t length,
                                                            Access access, Term term) {
    auto at = reinterpret_cast<uintptr_t>(address);
    std::lock_guard lock(mutex_);
    bool cacheable = place.allocation.id != 0 && term == Term::kept;
    if (cacheable) {
        if (Entry* entry = find(place, at, length, access)) {
            ++stats_.hits;
            ++entry->users;
            return Lease(this, entry);
        }
        drop_stale(place);
    }
    ++stats_.misses;
    Entry fresh{place.kind, place.allocation.id, place.allocation.device, at, length, 0, 1, cacheable, access};
    if (cacheable && make_room(place, place.allocation.size)) {
        fresh.start = place.allocation.base;
        fresh.length = place.allocation.size;
    } else if (!make_room(place, length)) {
        return refusal(place, length);
    }
    Result<uint64_t> key = registrar_.add(place, fresh.start, fresh.length, access, term);
    if (!key.ok()) return key.status();
    fresh.key = *key;
    stats_.bytes += fresh.length;
    entries_.push_front(fresh);
    return Lease(this, &entries_.front());
}

void RegistrationCache::release(Entry* entry) {
    std::lock_guard lock(mutex_);
    if (--entry->users > 0 || entry->cached) return;
    auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& other) { return &other == entry; });
    erase(found);
}

void RegistrationCache::drop(const Kind& kind, uint64_t id) {
    std::lock_guard lock(mutex_);
    for (auto entry = entries_.begin(); entry != entries_.end();) {
        if (entry->kind != &kind || entry->id != id || !entry->cached) {
            ++entry;
            continue;
        }
        entry->cached = false;
        entry = entry->users == 0 ? erase(entry) : std::next(entry);
    }
}

size_t RegistrationCache::window(const Place& place) const {
    return std::min(limit_, place.kind->aperture(place.allocation.device));
}

RegistrationCache::Stats RegistrationCache::stats() const {
    std::lock_guard lock(mutex_);
    return stats_;
}

}  // namespace fabric::xds::memory
