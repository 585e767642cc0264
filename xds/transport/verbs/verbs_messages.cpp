#include "xds/transport/verbs/verbs_messages.h"

#include <sys/mman.h>

namespace fabric::xds::transport {

Result<std::unique_ptr<VerbsMessages>> VerbsMessages::make(ibv_pd* pd, unsigned arriving, unsigned leaving) {
    std::unique_ptr<VerbsMessages> messages(new VerbsMessages);
    messages->size_ = (arriving + leaving) * slot_size;
    void* memory = mmap(nullptr, messages->size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return Status::from_errno(errno, "memory for messages");
    messages->memory_ = static_cast<std::byte*>(memory);
    messages->arriving_ = arriving;
    messages->region_ = ibv_reg_mr(pd, memory, messages->size_, IBV_ACCESS_LOCAL_WRITE);
    if (messages->region_ == nullptr)
        return Status::from_errno(errno, "registration of memory for messages (see ulimit -l)");
    for (unsigned slot = arriving + leaving; slot > arriving; --slot)
        messages->free_.push_back(static_cast<int>(slot - 1));
    return messages;
}

VerbsMessages::~VerbsMessages() {
    if (region_ != nullptr) ibv_dereg_mr(region_);
    if (memory_ != nullptr) munmap(memory_, size_);
}

int VerbsMessages::take() {
    if (free_.empty()) return -1;
    int slot = free_.back();
    free_.pop_back();
    return slot;
}

}  // namespace fabric::xds::transport
