#include "tests/xds/cuda/card.h"

#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>

#include "xds/memory/kind.h"

#undef ibv_reg_mr

namespace fabric::xds {
namespace {

// What stands for a dma-buf is a memory file: it is mapped, and the mapping registered in its place.
struct Mapped {
    void* start = nullptr;
    size_t length = 0, registered = 0;
};
std::mutex mutex;
std::map<ibv_mr*, Mapped>& regions() {
    static auto* all = new std::map<ibv_mr*, Mapped>;
    return *all;
}

using Register = ibv_mr* (*)(ibv_pd*, void*, size_t, uint64_t, unsigned);
ibv_mr* really_register(ibv_pd* pd, void* start, size_t length, uint64_t iova, unsigned access) {
    static auto real = reinterpret_cast<Register>(dlsym(RTLD_NEXT, "ibv_reg_mr_iova2"));
    return real(pd, start, length, iova, access);
}

ibv_mr* failed(int error) {
    errno = error;
    return nullptr;
}

ibv_mr* map_and_register(ibv_pd* pd, int fd, uint64_t offset, size_t length, uint64_t iova, int access) {
    auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    uint64_t start = offset / page * page;
    Mapped mapped;
    mapped.length = length + (offset - start);
    mapped.registered = length;
    mapped.start = mmap(nullptr, mapped.length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(start));
    if (mapped.start == MAP_FAILED) return failed(errno);
    ibv_mr* region = card().pretend ? new ibv_mr{}
                                    : really_register(pd, static_cast<char*>(mapped.start) + (offset - start), length,
                                                      iova, static_cast<unsigned>(access));
    if (region == nullptr) {
        int error = errno;
        munmap(mapped.start, mapped.length);
        return failed(error);
    }
    std::lock_guard lock(mutex);
    regions().emplace(region, mapped);
    ++card().live;
    card().live_bytes += length;
    card().most_bytes = std::max(card().most_bytes, card().live_bytes);
    return region;
}

// By its address: what a kernel module for such memory would find behind it.
ibv_mr* register_peer(ibv_pd* pd, const memory::Kind& kind, void* address, size_t length, int access) {
    if (card().no_peer != 0) return failed(card().no_peer);
    auto exported = kind.export_dmabuf(address, length);
    if (!exported.ok()) return failed(EFAULT);
    ++card().peers;
    return map_and_register(pd, exported->fd.get(), exported->offset, length, reinterpret_cast<uint64_t>(address),
                            access);
}

}  // namespace

Card& card() {
    static Card one;
    return one;
}

}  // namespace fabric::xds

using namespace fabric::xds;

extern "C" {

// Linux 6.1, uverbs_std_types_mr.c: no windows, and the same offset in a page as the address.
ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access) {
    if (card().no_dmabuf != 0) return failed(card().no_dmabuf);
    if ((access & IBV_ACCESS_MW_BIND) != 0 || (offset ^ iova) % static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) != 0)
        return failed(EINVAL);
    ++card().dmabufs;
    // Where the dma-buf begins in the file that stands for it.
    auto start = static_cast<uint64_t>(lseek(fd, 0, SEEK_CUR));
    return map_and_register(pd, fd, start + offset, length, iova, access);
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, size_t length, uint64_t iova, unsigned access) {
    auto place = memory::locate(address, length);
    if (place.ok() && !place->kind->host_accessible())
        return register_peer(pd, *place->kind, address, length, static_cast<int>(access));
    return really_register(pd, address, length, iova, access);
}
ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, size_t length, int access) {
    return ibv_reg_mr_iova2(pd, address, length, reinterpret_cast<uint64_t>(address), static_cast<unsigned>(access));
}

int ibv_dereg_mr(ibv_mr* region) {
    static auto real = reinterpret_cast<int (*)(ibv_mr*)>(dlsym(RTLD_NEXT, "ibv_dereg_mr"));
    Mapped mapped;
    {
        std::lock_guard lock(mutex);
        auto found = regions().find(region);
        if (found != regions().end()) {
            mapped = found->second;
            regions().erase(found);
            --card().live;
            card().live_bytes -= mapped.registered;
        }
    }
    int result = 0;
    if (mapped.start != nullptr && card().pretend)
        delete region;
    else
        result = real(region);
    if (mapped.start != nullptr) munmap(mapped.start, mapped.length);
    return result;
}
}
