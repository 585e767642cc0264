// What makes a folder a store: its FORMAT file, and the lock of the one process that owns it.
#pragma once

#include <cstdint>
#include <string>

#include "common/result.h"
#include "common/unique_fd.h"

namespace fabric::store {

struct Format {
    // Of this code. A store of a lower version is upgraded when it is opened, one of a higher version refused.
    // 1: the first. 2: records may have a lifetime. 3: and a dataset. What an earlier one wrote reads the same.
    static constexpr uint32_t current = 3;

    uint32_t version = current;
    std::string uuid;           // of the store, made at its creation
    uint64_t segment_size = 0;  // bytes, fixed at its creation

    std::string print() const;
    // `path` is for the message. An unknown line, a missing or damaged value is Code::corrupt, with the line's number.
    static Result<Format> parse(const std::string& text, const std::string& path);
};

// Locks the folder for this process (flock(2) on LOCK: the kernel lets go of it whatever way the process ends). When
// another has it: EBUSY, with its process id and name.
Result<UniqueFd> lock_folder(const std::string& folder);

// Reads FORMAT. In an empty folder it is made first, durably, with `segment_size`; a folder that has other files and no
// FORMAT is refused, since something else may live there.
Result<Format> open_format(const std::string& folder, uint64_t segment_size);

}  // namespace fabric::store
