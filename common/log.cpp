#include "common/log.h"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <mutex>

namespace fabric::log {
namespace {

Level from_spdlog(spdlog::level::level_enum level) {
    if (level >= spdlog::level::err) return Level::error;
    if (level == spdlog::level::warn) return Level::warn;
    return level == spdlog::level::info ? Level::info : Level::debug;
}

spdlog::level::level_enum to_spdlog(Level level) {
    switch (level) {
        case Level::debug:
            return spdlog::level::debug;
        case Level::info:
            return spdlog::level::info;
        case Level::warn:
            return spdlog::level::warn;
        case Level::error:
            break;
    }
    return spdlog::level::err;
}

class CallbackSink : public spdlog::sinks::base_sink<std::mutex> {
  public:
    explicit CallbackSink(Sink callback) : callback_(std::move(callback)) {}

  protected:
    void sink_it_(const spdlog::details::log_msg& message) override {
        callback_(from_spdlog(message.level), std::string_view(message.payload.data(), message.payload.size()));
    }
    void flush_() override {}

  private:
    Sink callback_;
};

spdlog::logger& logger() {
    // Never destroyed: threads may log while the process exits.
    static auto* instance = new spdlog::logger("fabric", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    return *instance;
}

}  // namespace

void set_sink(Sink sink) { logger().sinks() = {std::make_shared<CallbackSink>(std::move(sink))}; }

void set_level(Level level) { logger().set_level(to_spdlog(level)); }

bool enabled(Level level) { return logger().should_log(to_spdlog(level)); }

void write(Level level, std::string_view line) { logger().log(to_spdlog(level), line); }

}  // namespace fabric::log
