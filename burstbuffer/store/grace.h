// Tells when everybody who may have seen an old state is gone, at the cost of one uncontended atomic add for a reader.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace fabric::store {

// A reader is inside from enter() to leave(), on any threads. Who made something unreachable asks now(), and may reuse
// it once passed() says that all who were inside at that time have left. Readers that come later do not hold it up.
class Grace {
  public:
    struct Token {
        std::atomic<int64_t>* counter = nullptr;
    };

    // What is looked up after this call is safe until leave().
    Token enter() {
        std::atomic<int64_t>& counter = inside_[epoch_.load() & 1][shard()].count;
        counter.fetch_add(1);
        return {&counter};
    }
    static void leave(Token token) { token.counter->fetch_sub(1); }

    uint64_t now() const { return epoch_.load(); }
    // Moves the epoch on where it can be. One thread at a time.
    //
    // Epoch e+1 begins when nobody counted under the parity of e+1 is inside. A reader from epoch e or before is
    // counted under one of the two parities, so both steps from e to e+2 are needed, and enough.
    bool passed(uint64_t since) {
        while (epoch_.load() < since + 2) {
            for (const Shard& shard : inside_[(epoch_.load() + 1) & 1]) {
                if (shard.count.load() != 0) return false;
            }
            epoch_.fetch_add(1);
        }
        return true;
    }

  private:
    static constexpr size_t shard_count = 16;
    struct alignas(64) Shard {
        std::atomic<int64_t> count{0};
    };
    static size_t shard() {
        static std::atomic<size_t> next{0};
        thread_local size_t own = next.fetch_add(1, std::memory_order_relaxed) % shard_count;
        return own;
    }

    std::atomic<uint64_t> epoch_{2};  // 0 is passed from the start on
    std::array<std::array<Shard, shard_count>, 2> inside_{};
};

}  // namespace fabric::store
