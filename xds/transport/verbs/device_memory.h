// Registration of memory that is not the host's with one card: which way works is found out by trying, once for each
// device. By dma-buf (ibv_reg_dmabuf_mr(3)), else by its address, where a kernel module knows such memory ("peer
// memory"), else not at all: data goes through host memory then.
#pragma once

#include <infiniband/verbs.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "xds/memory/registration_cache.h"

namespace fabric::xds::transport {

// Thread safe.
class DeviceMemory {
  public:
    enum class Way { none, dmabuf, peer };
    struct Verdict {
        Way way = Way::none;
        // Why this one: one line, of a lifetime without end.
        const char* why = "";
    };

    // `card`: its name, for messages. The protection domain outlives this.
    DeviceMemory(ibv_pd* pd, std::string card) : pd_(pd), card_(std::move(card)) {}

    // Of the device that the memory is of. Tries when it is asked first; what fails for want of memory or descriptors
    // is tried again. Allocates nothing once that is known.
    Verdict way(const memory::Place& place);
    // Windows can be bound to its registrations, so they may be kept between requests. The kernel takes no registration
    // of a dma-buf for windows (Linux 6.1, uverbs_std_types_mr.c).
    bool takes_windows(const memory::Place& place) { return way(place).way == Way::peer; }
    // ENOTSUP: neither way works.
    Result<ibv_mr*> add(const memory::Place& place, uintptr_t address, size_t length, int rights);

  private:
    Result<ibv_mr*> by_dmabuf(const memory::Place& place, uintptr_t address, size_t length, int rights) const;
    Result<ibv_mr*> by_address(const memory::Place& place, uintptr_t address, size_t length, int rights) const;
    std::pair<Verdict, bool> find_out(const memory::Place& place) const;

    ibv_pd* const pd_;
    const std::string card_;
    std::mutex mutex_;
    std::map<std::pair<const memory::Kind*, int>, Verdict> verdicts_;
};

}  // namespace fabric::xds::transport
