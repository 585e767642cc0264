// What the cache holds of some files, and whether it is what the backing store has.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "burstbuffer/cache/cache.h"
#include "burstbuffer/stage/tree.h"

namespace fabric::stage {

struct Share {
    uint64_t files = 0;  // that there are
    uint64_t bytes = 0;
    uint64_t held_files = 0;  // of which all is held
    uint64_t held_bytes = 0;  // of whole files and parts
    uint64_t pinned_files = 0;

    Share& operator+=(const Share& other);
};
Share share_of(cache::Cache& cache, const TreeFile& file);

enum class Verdict {
    same,       // all that is held is what the backing store has
    not_held,   // nothing is
    partly,     // what is held is right, but it is not all
    different,  // other bytes: of the cache, or damaged on disk and dropped
    unreadable,
};
struct Verified {
    Verdict verdict = Verdict::same;
    std::string cause;
};
// Reads the file and what is held of it, and compares each byte. `file` as it was found in its tree, on `filesystem`.
Verified verify(cache::Cache& cache, const TreeFile& file, const fs::Filesystem& filesystem);

}  // namespace fabric::stage
