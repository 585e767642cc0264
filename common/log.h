// One logger for all layers. Lines go to stderr until a host process takes them over (the NFS server sends them to its
// own log).
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string_view>
#include <utility>

namespace fabric::log {

enum class Level { debug, info, warn, error };

using Sink = std::function<void(Level, std::string_view line)>;

// Replaces where lines go; called once, before threads start. The sink is called from any thread, one line at a time.
void set_sink(Sink sink);
// Lines below `level` are dropped before they are formatted (default: info). Any thread.
void set_level(Level level);
bool enabled(Level level);
void write(Level level, std::string_view line);

template <typename... Args>
void log(Level level, fmt::format_string<Args...> format, Args&&... args) {
    if (enabled(level)) write(level, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
    log(Level::error, format, std::forward<Args>(args)...);
}
template <typename... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
    log(Level::warn, format, std::forward<Args>(args)...);
}
template <typename... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
    log(Level::info, format, std::forward<Args>(args)...);
}
template <typename... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
    log(Level::debug, format, std::forward<Args>(args)...);
}

}  // namespace fabric::log
