#include "common/fs/mount_info.h"

#include <fstream>
#include <sstream>

namespace fabric::fs {
namespace {

// Blanks, tabs, newlines and backslashes stand as three octal digits.
std::string unescape(const std::string& text) {
    std::string plain;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\\' && i + 3 < text.size()) {
            int value = 0;
            for (size_t digit = 1; digit <= 3; ++digit) value = value * 8 + (text[i + digit] - '0');
            plain.push_back(static_cast<char>(value));
            i += 3;
        } else {
            plain.push_back(text[i]);
        }
    }
    return plain;
}

}  // namespace

// ID PARENT MAJOR:MINOR ROOT MOUNTPOINT OPTIONS [FIELD...] - TYPE SOURCE SUPEROPTIONS
Mount parse_mount(const std::string& line) {
    Mount mount;
    std::istringstream words(line);
    std::string parent, device, root, options, word;
    if (!(words >> mount.id >> parent >> device >> root >> mount.path >> options)) return {};
    while (words >> word && word != "-") {
    }
    if (!(words >> mount.type >> mount.source)) return {};
    mount.path = unescape(mount.path);
    mount.source = unescape(mount.source);
    return mount;
}

std::vector<Mount> read_mounts() {
    std::vector<Mount> mounts;
    std::ifstream file("/proc/self/mountinfo");
    for (std::string line; std::getline(file, line);) {
        if (Mount mount = parse_mount(line); mount.id != 0) mounts.push_back(std::move(mount));
    }
    return mounts;
}

std::vector<std::string> mounts_below(const std::string& path) {
    std::string prefix = path == "/" ? path : path + "/";
    std::vector<std::string> paths;
    for (const Mount& mount : read_mounts()) {
        if (mount.path == path || mount.path.starts_with(prefix)) paths.push_back(mount.path);
    }
    return paths;
}

}  // namespace fabric::fs
