// Compares a store's index with its segments, and mends what can be mended.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "common/result.h"

namespace fabric::store {

struct FsckOptions {
    std::string folder;
    // Drops clean records that are damaged, and makes anew what can be derived. Dirty records are never dropped.
    bool repair = false;
    // Reads every record and compares its checksums.
    bool data = false;
};

struct Finding {
    std::string what;
    bool repaired = false;
};

struct FsckReport {
    uint64_t records = 0;
    uint64_t dirty = 0;
    uint64_t bytes = 0;  // of records
    uint64_t found = 0;  // findings
    uint64_t repaired = 0;
};

// The store must have no owner. `tell` is called for each finding as it is found. A store that cannot be opened at all
// is a Status. The records' places are kept in memory: 16 bytes each.
Result<FsckReport> fsck(const FsckOptions& options, const std::function<void(const Finding&)>& tell);

}  // namespace fabric::store
