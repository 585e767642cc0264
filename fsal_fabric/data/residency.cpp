#include "fsal_fabric/data/residency.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>

namespace fabric::fsal {
namespace {

constexpr size_t page = 4096;
constexpr long cachestat_call = 451;  // the same on every architecture; newer than the C library's headers

struct CachestatRange {
    uint64_t offset, length;
};
struct Cachestat {
    uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

// -1: not known.
int64_t count_by_cachestat(int fd, uint64_t offset, size_t length) {
    static std::atomic<bool> missing{false};
    if (missing.load(std::memory_order_relaxed)) return -1;
    CachestatRange range{offset, length};
    Cachestat found{};
    if (syscall(cachestat_call, fd, &range, &found, 0) == 0) return static_cast<int64_t>(found.cached);
    if (errno == ENOSYS || errno == EPERM) missing = true;
    return -1;
}

int64_t count_by_mincore(int fd, uint64_t offset, size_t pages) {
    std::array<unsigned char, 1024> resident;
    pages = std::min(pages, resident.size());
    void* mapped = mmap(nullptr, pages * page, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(offset));
    if (mapped == MAP_FAILED) return 0;
    int64_t count = 0;
    if (mincore(mapped, pages * page, resident.data()) == 0)
        count = std::count_if(resident.begin(), resident.begin() + static_cast<std::ptrdiff_t>(pages),
                              [](unsigned char one) { return (one & 1) != 0; });
    munmap(mapped, pages * page);
    return count;
}

}  // namespace

bool mostly_cached(int fd, uint64_t offset, size_t length) {
    uint64_t start = offset / page * page;
    auto pages = static_cast<size_t>((offset + length - start + page - 1) / page);
    int64_t cached = count_by_cachestat(fd, start, pages * page);
    if (cached < 0) {
        cached = count_by_mincore(fd, start, pages);
        pages = std::min<size_t>(pages, 1024);
    }
    return 2 * static_cast<size_t>(cached) >= pages;
}

}  // namespace fabric::fsal
