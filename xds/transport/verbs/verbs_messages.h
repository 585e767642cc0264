// Registered memory of one connection for messages: where arriving ones land, and copies of those on their way out that
// do not fit into a work request.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "common/result.h"

namespace fabric::xds::transport {

class VerbsMessages {
  public:
    static constexpr size_t slot_size = 8192;  // bytes: the longest message, either way

    static Result<std::unique_ptr<VerbsMessages>> make(ibv_pd* pd, unsigned arriving, unsigned leaving);
    ~VerbsMessages();
    VerbsMessages(const VerbsMessages&) = delete;
    VerbsMessages& operator=(const VerbsMessages&) = delete;

    unsigned arriving() const { return arriving_; }
    std::byte* at(unsigned slot) const { return memory_ + slot * slot_size; }
    uint32_t key() const { return region_->lkey; }
    // A slot for a message on its way out, or -1: all are taken.
    int take();
    void give_back(int slot) { free_.push_back(slot); }

  private:
    VerbsMessages() = default;

    std::byte* memory_ = nullptr;
    size_t size_ = 0;
    unsigned arriving_ = 0;
    ibv_mr* region_ = nullptr;
    std::vector<int> free_;
};

}  // namespace fabric::xds::transport
