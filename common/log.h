// One logger for all layers. Lines go to stderr until a host process takes them over (the NFS server sends them to its
// own log).
#pragma once

#include <spdlog/spdlog.h>

#include <functional>
#include <string_view>

namespace fabric::log {

using Sink = std::function<void(spdlog::level::level_enum, std::string_view line)>;

// Replaces where lines go; called once, before threads start. The sink may be called from any thread, one line at a
// time.
void set_sink(Sink sink);
void set_level(spdlog::level::level_enum level);
spdlog::logger& logger();

template <typename... Args>
void error(spdlog::format_string_t<Args...> format, Args&&... args) {
    logger().error(format, std::forward<Args>(args)...);
}
template <typename... Args>
void warn(spdlog::format_string_t<Args...> format, Args&&... args) {
    logger().warn(format, std::forward<Args>(args)...);
}
template <typename... Args>
void info(spdlog::format_string_t<Args...> format, Args&&... args) {
    logger().info(format, std::forward<Args>(args)...);
}
template <typename... Args>
void debug(spdlog::format_string_t<Args...> format, Args&&... args) {
    logger().debug(format, std::forward<Args>(args)...);
}

}  // namespace fabric::log
