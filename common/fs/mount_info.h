// The mounts that this process sees: /proc/self/mountinfo, proc(5).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fabric::fs {

struct Mount {
    uint64_t id = 0;
    std::string path;
    std::string type;
    std::string source;
};

// In mount order. Empty when /proc is not there.
std::vector<Mount> read_mounts();
// One line of the file; an id of 0 means that it could not be read.
Mount parse_mount(const std::string& line);
// Paths of all mounts at or below `path`, in mount order.
std::vector<std::string> mounts_below(const std::string& path);

}  // namespace fabric::fs
