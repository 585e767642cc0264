#include "fsal_fabric/data/runtime.h"

#include <sys/random.h>

#include "common/log.h"
#include "common/metrics.h"
#include "fsal_fabric/data/relief.h"

namespace fabric::fsal {
namespace {

std::atomic<uint64_t> verifier{0};
metrics::Counter verifier_changes("fabric_write_verifier_changes_total",
                                  "Times that clients were told to send uncommitted writes again");

}  // namespace

DataRuntime& data_runtime() {
    static auto* runtime = new DataRuntime;
    return *runtime;
}

uint64_t write_verifier() { return verifier.load(); }

void change_write_verifier(std::string_view cause) {
    verifier.fetch_add(1);
    verifier_changes.add(1);
    log::error("writes that were acknowledged may be lost ({}); clients are told to send theirs again", cause);
}

Status start_data(const DataConfig& config) {
    uint64_t first = 0;
    if (getrandom(&first, sizeof first, 0) != sizeof first) return Status::from_errno(errno, "getrandom");
    verifier.store(first);

    DataRuntime& runtime = data_runtime();
    runtime.config = config;
    runtime.buffers = std::make_unique<io::BufferPool>(
        io::BufferPool::Options{.limit = config.buffer_memory, .idle_seconds = config.buffer_idle_seconds});
    runtime.reply_memory = std::make_unique<ReplyMemory>(*runtime.buffers);
    Result<std::unique_ptr<io::Engine>> engine =
        io::Engine::start({.lanes = config.lanes, .depth = config.depth, .bytes_in_flight = config.bytes_in_flight});
    if (!engine.ok()) return engine.status();
    runtime.engine = std::move(engine).value();
    start_descriptor_relief();
    runtime.uncommitted.start();
    return {};
}

Status start_burst_buffer(const std::string& settings_path, fs::FilesystemTable& filesystems) {
    Result<node::Settings> settings = node::load_settings(settings_path);
    if (!settings.ok()) return settings.status();
    Result<std::unique_ptr<node::Node>> started = node::Node::start(*settings, filesystems);
    if (!started.ok()) return started.status();
    (*started)->write_back().on_loss([](const Status& why) { change_write_verifier(why.message()); });
    data_runtime().burst_buffer = std::move(started).value();
    return {};
}

void stop_data() {
    data_runtime().burst_buffer.reset();
    data_runtime().uncommitted.stop();
    stop_descriptor_relief();
    data_runtime().engine.reset();
    data_runtime().reply_memory.reset();
    data_runtime().buffers.reset();
}

}  // namespace fabric::fsal
