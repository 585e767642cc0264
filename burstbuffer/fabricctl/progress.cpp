#include "burstbuffer/fabricctl/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace fabric::ctl {

std::string human_bytes(double bytes) {
    constexpr std::array<const char*, 6> units{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t unit = 0;
    while (bytes >= 1024 && unit + 1 < units.size()) {
        bytes /= 1024;
        ++unit;
    }
    return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, units[unit]);
}

std::string human_seconds(double seconds) {
    auto whole = static_cast<int64_t>(seconds + 0.5);
    if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
    return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string progress_line(const control::Json& progress, double loading_seconds, size_t width) {
    auto number = [&](const char* key) { return progress.value(key, uint64_t{0}); };
    std::string failed = number("failed_files") == 0 ? "" : fmt::format("  {} failed", number("failed_files"));
    if (progress.value("scanning", false)) {
        return fmt::format("scanning: {} files, {}{}", number("files"),
                           human_bytes(static_cast<double>(number("bytes"))), failed)
            .substr(0, width);
    }
    // By bytes; files without any by their number.
    auto all = static_cast<double>(number("bytes")), done = static_cast<double>(number("done_bytes"));
    double share = all > 0 ? done / all : 1;
    double loaded = done - static_cast<double>(number("held_bytes"));
    double rate = loading_seconds > 0 ? loaded / loading_seconds : 0;
    std::string left = rate > 0 ? human_seconds((all - done) / rate) : "-:--";
    std::string text =
        fmt::format(" {:3.0f}%  {}/{} files  {} of {}  {}/s  {} left{}", share * 100, number("done_files"),
                    number("files"), human_bytes(done), human_bytes(all), human_bytes(rate), left, failed);
    if (text.size() + 12 > width) return text.substr(0, width);
    size_t bar = std::min<size_t>(width - text.size() - 2, 30);
    auto filled = static_cast<size_t>(share * static_cast<double>(bar));
    return "[" + std::string(filled, '#') + std::string(bar - filled, '.') + "]" + text;
}

}  // namespace fabric::ctl
