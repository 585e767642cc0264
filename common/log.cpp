#include "common/log.h"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <memory>
#include <mutex>

namespace fabric::log {
namespace {

class CallbackSink : public spdlog::sinks::base_sink<std::mutex> {
  public:
    explicit CallbackSink(Sink callback) : callback_(std::move(callback)) {}

  protected:
    void sink_it_(const spdlog::details::log_msg& message) override {
        callback_(message.level, std::string_view(message.payload.data(), message.payload.size()));
    }
    void flush_() override {}

  private:
    Sink callback_;
};

}  // namespace

spdlog::logger& logger() {
    // Never destroyed: threads may log while the process exits.
    static auto* instance = new spdlog::logger("fabric", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    return *instance;
}

void set_sink(Sink sink) { logger().sinks() = {std::make_shared<CallbackSink>(std::move(sink))}; }

void set_level(spdlog::level::level_enum level) { logger().set_level(level); }

}  // namespace fabric::log
