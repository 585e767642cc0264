// The path by which system calls that take no descriptor, or none opened with O_PATH, reach it: proc(5), /proc/PID/fd.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

namespace fabric::fsal {

// With a symbolic link open, the path leads to the link itself.
class DescriptorPath {
  public:
    explicit DescriptorPath(int fd) {
        char* at = std::copy(prefix.begin(), prefix.end(), text_.begin());
        *std::to_chars(at, text_.end() - 1, fd).ptr = '\0';
    }
    const char* c_str() const { return text_.data(); }

  private:
    static constexpr std::string_view prefix = "/proc/self/fd/";
    std::array<char, 32> text_;
};

}  // namespace fabric::fsal
