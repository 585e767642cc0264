#include "xds/client/staging.h"

#include <sys/mman.h>

#include "xds/memory/host.h"

namespace fabric::xds::client {

StagingPool::~StagingPool() {
    for (auto& staging : all_) munmap(staging->data, size_);
}

Staging* StagingPool::take() {
    if (free_ == nullptr) {
        if (all_.size() >= count_) return nullptr;
        void* mapped = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapped == MAP_FAILED) return nullptr;
        all_.push_back(std::make_unique<Staging>());
        all_.back()->data = static_cast<char*>(mapped);
        all_.back()->place = memory::host_place(mapped, size_);
        free_ = all_.back().get();
    }
    Staging* staging = free_;
    free_ = staging->next;
    staging->next = nullptr;
    ++lent_;
    return staging;
}

void StagingPool::give_back(Staging* staging) {
    staging->next = free_;
    free_ = staging;
    --lent_;
}

}  // namespace fabric::xds::client
