#include "xds/client/staging.h"

#include <sys/mman.h>

#include "xds/memory/host.h"

namespace fabric::xds::client {

StagingPool::StagingPool(size_t count, size_t size) : size_(size), all_(count) {}

void StagingPool::clear() {
    for (size_t i = 0; i < used_; ++i) {
        if (all_[i].pinned_for != nullptr) all_[i].pinned_for->unpin(all_[i].data);
        munmap(all_[i].data, size_);
        all_[i] = {};
    }
    used_ = 0;
    free_ = nullptr;
}

Staging* StagingPool::make() {
    if (used_ == all_.size()) return nullptr;
    void* mapped = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    Staging& fresh = all_[used_++];
    fresh.data = static_cast<char*>(mapped);
    fresh.place = memory::host_place(mapped, size_);
    return &fresh;
}

Staging* StagingPool::take(const memory::Kind& kind, const void* near) {
    Staging* staging = free_ != nullptr ? free_ : make();
    if (staging == nullptr) return nullptr;
    free_ = staging->next;
    staging->next = nullptr;
    ++lent_;
    if (!kind.host_accessible() && staging->pinned_for == nullptr && !staging->cannot_be_pinned) {
        staging->cannot_be_pinned = !kind.pin(staging->data, size_, near).ok();
        if (!staging->cannot_be_pinned) staging->pinned_for = &kind;
    }
    return staging;
}

void StagingPool::give_back(Staging* staging) {
    staging->next = free_;
    free_ = staging;
    --lent_;
}

}  // namespace fabric::xds::client
