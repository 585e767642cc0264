// What is written back, and within what bounds.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fabric::writeback {

struct Options {
    // Files with these paths, absolute, on this node: `*` and `?` stand for what is no slash, `**` for anything. The
    // first one that matches is a file's rule; order is kept between the files of one rule.
    std::vector<std::string> paths;
    // Bytes, on the disks, that the backing store may be behind; writes beyond wait for the drain.
    uint64_t max_dirty = uint64_t{8} << 30;
    // What is older is drained as fast as it can be, and new writes wait for it.
    std::chrono::milliseconds max_age{60'000};
    // Bytes a second of one rule's drain, so that others have something of the backing store; 0: as fast as it can be.
    uint64_t drain_rate = 0;
    // Of the time, while clients read from this node: what draining takes then, above 0. The rest is theirs, until
    // somebody waits for the drain, what waits gets too old, or three quarters of max_dirty are in use. 1: no regard.
    double share = 0.25;
    enum class AtEnd {
        drain,  // the node ends when the backing store has everything, or takes no more
        keep,   // the next start goes on
    };
    AtEnd at_end = AtEnd::drain;
    // Between two tries of what the backing store did not take: doubled each time, up to the second.
    std::chrono::milliseconds first_retry{200};
    std::chrono::milliseconds longest_retry{10'000};
    // Written, and not committed by anybody for so long: made durable all the same, so that it can be drained.
    std::chrono::milliseconds settle{5'000};
};

bool matches(std::string_view pattern, std::string_view path);

}  // namespace fabric::writeback
