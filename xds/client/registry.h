// Handles that a C caller holds: numbers, not addresses, so that a stale one finds nothing instead of freed memory.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace fabric::xds::client {

// Thread safe; get() allocates nothing.
template <typename T, typename Opaque>
class Registry {
  public:
    Opaque* add(std::shared_ptr<T> object) {
        std::lock_guard lock(mutex_);
        if (free_.empty()) {
            slots_.emplace_back();
            free_.push_back(slots_.size() - 1);
        }
        size_t index = free_.back();
        free_.pop_back();
        slots_[index].object = std::move(object);
        return encode(index, slots_[index].generation);
    }
    // Null: closed, or never a handle.
    std::shared_ptr<T> get(const Opaque* handle) const {
        std::lock_guard lock(mutex_);
        const Slot* slot = find(handle);
        return slot == nullptr ? nullptr : slot->object;
    }
    // The handle is void from now on.
    std::shared_ptr<T> take(const Opaque* handle) {
        std::lock_guard lock(mutex_);
        auto* slot = const_cast<Slot*>(find(handle));
        if (slot == nullptr) return nullptr;
        ++slot->generation;
        free_.push_back(static_cast<size_t>(slot - slots_.data()));
        return std::exchange(slot->object, nullptr);
    }
    std::mutex& mutex() const { return mutex_; }

  private:
    struct Slot {
        std::shared_ptr<T> object;
        uint64_t generation = 1;
    };
    static constexpr unsigned index_bits = 24;

    static Opaque* encode(size_t index, uint64_t generation) {
        return reinterpret_cast<Opaque*>(static_cast<uintptr_t>(generation << index_bits | index));
    }
    const Slot* find(const Opaque* handle) const {
        auto bits = reinterpret_cast<uintptr_t>(handle);
        size_t index = bits & ((uintptr_t{1} << index_bits) - 1);
        if (index >= slots_.size()) return nullptr;
        const Slot& slot = slots_[index];
        return slot.object != nullptr && encode(index, slot.generation) == handle ? &slot : nullptr;
    }

    // Not a shared_mutex: the child of a fork has to unlock it, and glibc's knows its writer by thread id.
    mutable std::mutex mutex_;
    std::vector<Slot> slots_;
    std::vector<size_t> free_;
};

}  // namespace fabric::xds::client
