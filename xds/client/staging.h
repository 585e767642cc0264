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
    Staging* next = nullptr;
};

// One thread.
class StagingPool {
  public:
    StagingPool(size_t count, size_t size) : count_(count), size_(size) {}
    ~StagingPool();
    StagingPool(const StagingPool&) = delete;
    StagingPool& operator=(const StagingPool&) = delete;

    // Null: all are lent, or the kernel has no memory.
    Staging* take();
    void give_back(Staging* staging);
    size_t size() const { return size_; }
    bool all_free() const { return lent_ == 0; }

  private:
    const size_t count_, size_;
    std::vector<std::unique_ptr<Staging>> all_;
    Staging* free_ = nullptr;
    size_t lent_ = 0;
};

}  // namespace fabric::xds::client
