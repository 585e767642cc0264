// Tells reads that go on where another one ended.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace fabric::cache {

// Thread safe, without locks. It remembers where the last few thousand reads ended; a mix-up makes a guess wrong.
class Sequences {
  public:
    // A read of a file (by a hash of its name) from `begin` to `end`, in bytes. True: it goes on where one ended.
    bool note(uint64_t file, uint64_t begin, uint64_t end) {
        bool goes_on = begin != 0 && slot(mark(file, begin)).load(std::memory_order_relaxed) == mark(file, begin);
        slot(mark(file, end)).store(mark(file, end), std::memory_order_relaxed);
        return goes_on;
    }

  private:
    static uint64_t mark(uint64_t file, uint64_t offset) {
        uint64_t mixed = (file ^ (offset * 0x9e3779b97f4a7c15ULL)) * 0xbf58476d1ce4e5b9ULL;
        return (mixed ^ (mixed >> 31)) | 1;
    }
    std::atomic<uint64_t>& slot(uint64_t of) { return ends_[(of >> 20) % ends_.size()]; }

    std::array<std::atomic<uint64_t>, 4096> ends_{};
};

}  // namespace fabric::cache
