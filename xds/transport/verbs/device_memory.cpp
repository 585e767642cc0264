#include "xds/transport/verbs/device_memory.h"

#include <unistd.h>

#include <algorithm>
#include <set>

namespace fabric::xds::transport {
namespace {

// There are few: what each device's probe found, in words.
const char* kept_for_good(std::string text) {
    static auto* mutex = new std::mutex;
    static auto* all = new std::set<std::string>;
    std::lock_guard lock(*mutex);
    return all->insert(std::move(text)).first->c_str();
}

// A failure that says nothing about whether it could work.
bool passes(const Status& status) {
    int error = status.errno_value();
    return error == ENOMEM || error == EMFILE || error == ENFILE || error == ENOSPC || error == EAGAIN;
}

}  // namespace

Result<ibv_mr*> DeviceMemory::by_dmabuf(const memory::Place& place, uintptr_t address, size_t length,
                                        int rights) const {
    Result<memory::DmaBuf> exported = place.kind->export_dmabuf(reinterpret_cast<const void*>(address), length);
    if (!exported.ok()) return exported.status();
    // The registration holds on to the dma-buf; the descriptor is not needed any longer.
    ibv_mr* region = ibv_reg_dmabuf_mr(pd_, exported->offset, length, address, exported->fd.get(), rights);
    if (region == nullptr) return Status::from_errno(errno, "dma-buf registration with RDMA device " + card_);
    return region;
}

Result<ibv_mr*> DeviceMemory::by_address(const memory::Place& place, uintptr_t address, size_t length,
                                         int rights) const {
    FABRIC_RETURN_IF_ERROR(place.kind->peer_memory(reinterpret_cast<const void*>(address)));
    ibv_mr* region = ibv_reg_mr(pd_, reinterpret_cast<void*>(address), length, rights);
    if (region == nullptr) return Status::from_errno(errno, "registration with RDMA device " + card_);
    return region;
}

// The verdict, and whether it is for good.
std::pair<DeviceMemory::Verdict, bool> DeviceMemory::find_out(const memory::Place& place) const {
    constexpr int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    size_t length = std::min(page, place.allocation.size);
    std::string name(place.kind->name());
    Result<ibv_mr*> region = by_dmabuf(place, place.allocation.base, length, rights);
    if (region.ok()) {
        ibv_dereg_mr(*region);
        return {{Way::dmabuf, kept_for_good("the card reaches " + name + " memory by dma-buf")}, true};
    }
    const Status no_dmabuf = region.status();
    region = by_address(place, place.allocation.base, length, rights);
    if (region.ok()) {
        ibv_dereg_mr(*region);
        return {{Way::peer, kept_for_good("the card reaches " + name +
                                          " memory as peer memory; no dma-buf: " + no_dmabuf.message())},
                !passes(no_dmabuf)};
    }
    return {{Way::none, kept_for_good("the RDMA card does not reach " + name + " memory; dma-buf: " +
                                      no_dmabuf.message() + "; peer memory: " + region.status().message())},
            !passes(no_dmabuf) && !passes(region.status())};
}

DeviceMemory::Verdict DeviceMemory::way(const memory::Place& place) {
    std::lock_guard lock(mutex_);
    std::pair key(place.kind, place.allocation.device);
    if (auto found = verdicts_.find(key); found != verdicts_.end()) return found->second;
    auto [verdict, for_good] = find_out(place);
    if (for_good) verdicts_.emplace(key, verdict);
    return verdict;
}

Result<ibv_mr*> DeviceMemory::add(const memory::Place& place, uintptr_t address, size_t length, int rights) {
    switch (Verdict verdict = way(place); verdict.way) {
        case Way::dmabuf:
            return by_dmabuf(place, address, length, rights);
        case Way::peer:
            return by_address(place, address, length, rights);
        default:
            return Status(Code::invalid, ENOTSUP, verdict.why);
    }
}

}  // namespace fabric::xds::transport
