// What the page cache holds of a file.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fabric::fsal {

// Whether at least half of the pages of a range are in the page cache. cachestat(2), or on kernels before 6.5
// mincore(2), for which the descriptor must be open for reading; unknown counts as not cached. Asking starts no
// read-ahead, which preadv2(2) with RWF_NOWAIT does.
bool mostly_cached(int fd, uint64_t offset, size_t length);

}  // namespace fabric::fsal
