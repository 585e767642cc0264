// Host memory through which data of other memory kinds goes: a fixed number of buffers, mapped when first used.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "xds/memory/kind.h"

namespace fabric::xds::client {

struct Staging {
    char* data = nullptr;
    memory::Place place;
    // The kind whose copies it is pinned for; null: none yet. And whether that was tried in vain.
    const memory::Kind* pinned_for = nullptr;
    bool cannot_be_pinned = false;
    Staging* next = nullptr;
};

// One thread.
class StagingPool {
  public:
    StagingPool(size_t count, size_t size);
    ~StagingPool() { clear(); }
    StagingPool(const StagingPool&) = delete;
    StagingPool& operator=(const StagingPool&) = delete;

    // Null: all are lent, or the kernel has no memory. Pinned for copies to and from `near`, memory of `kind`, where
    // that is possible: slower otherwise, but as right.
    Staging* take(const memory::Kind& kind, const void* near);
    void give_back(Staging* staging);
    // Gives all memory up. Nothing may be lent.
    void clear();
    size_t size() const { return size_; }
    bool all_free() const { return lent_ == 0; }

  private:
    Staging* make();

    const size_t size_;
    std::vector<Staging> all_;  // all that may be, so that later nothing is allocated; the first used_ are mapped
    size_t used_ = 0;
    Staging* free_ = nullptr;
    size_t lent_ = 0;
};

}  // namespace fabric::xds::client
