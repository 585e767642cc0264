// Tells when a disk does not answer: whether a transfer has been under way for too long.
#pragma once

#include <time.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace fabric::store {

// Thread safe. Two uncontended atomic adds a transfer, and no list of them: they are counted by the second in which
// they began.
class InFlight {
  public:
    static constexpr unsigned longest = 60;  // seconds that can be asked for
    using Slot = std::atomic<uint32_t>*;

    Slot begin() {
        Slot slot = &slots_[now() % slots_.size()];
        slot->fetch_add(1, std::memory_order_relaxed);
        return slot;
    }
    static void end(Slot slot) { slot->fetch_sub(1, std::memory_order_relaxed); }

    // Whether one has been under way for `seconds`, at most `longest`. One of more than a minute may be passed over for
    // a few seconds in each.
    bool longer_than(unsigned seconds) const {
        size_t at = now();
        for (size_t age = seconds + 1; age < slots_.size(); ++age) {
            if (slots_[(at - age) % slots_.size()].load(std::memory_order_relaxed) != 0) return true;
        }
        return false;
    }

    // One transfer of the calling thread.
    class Guard {
      public:
        explicit Guard(InFlight& in) : slot_(in.begin()) {}
        ~Guard() { end(slot_); }
        Guard(const Guard&) = delete;

      private:
        Slot slot_;
    };

  private:
    static size_t now() {
        timespec time{};
        clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
        return static_cast<size_t>(time.tv_sec) + 64;
    }
    std::array<std::atomic<uint32_t>, 64> slots_{};
};

}  // namespace fabric::store
