#include "common/io/engine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "common/io/lane.h"
#include "common/metrics.h"

namespace fabric::io {
namespace {

struct OpMetrics {
    explicit OpMetrics(const char* op)
        : in_flight("fabric_io_in_flight", "I/O operations submitted and not complete", label(op)),
          errors("fabric_io_errors_total", "I/O operations that ended with an error", label(op)) {}
    static std::string label(const char* op) { return "op=\"" + std::string(op) + "\""; }
    metrics::Gauge in_flight;
    metrics::Counter errors;
};

OpMetrics& metrics_of(Op op) {
    static std::array<OpMetrics, 5> all{OpMetrics("read"), OpMetrics("write"), OpMetrics("fsync"),
                                        OpMetrics("fdatasync"), OpMetrics("fallocate")};
    return all[static_cast<size_t>(op)];
}

metrics::Gauge in_flight_bytes("fabric_io_in_flight_bytes", "Bytes of transfers submitted and not complete");

Request& request_of(Budget::Waiter& waiter) {
    return *reinterpret_cast<Request*>(reinterpret_cast<char*>(&waiter) - offsetof(Request, waiter));
}

}  // namespace

Engine::Engine(const EngineOptions& options) : budget_(options.bytes_in_flight) {}

Result<std::unique_ptr<Engine>> Engine::start(const EngineOptions& options) {
    unsigned count = options.lanes;
    if (count == 0) count = static_cast<unsigned>(std::clamp(sysconf(_SC_NPROCESSORS_ONLN), 1L, 16L));
    std::unique_ptr<Engine> engine(new Engine(options));
    metrics_of(Op::read);  // makes them, so that a scrape shows zeros before the first operation
    for (unsigned index = 0; index < count; ++index) {
        Result<std::unique_ptr<Lane>> lane = Lane::start(index, options.depth, finished);
        if (!lane.ok()) return lane.status();
        engine->lanes_.push_back(std::move(lane).value());
    }
    return engine;
}

// The requests that wait for room are handed to lanes by the completions of those before them, so the lanes go only
// when nothing waits.
Engine::~Engine() {
    while (budget_.used() != 0 || budget_.waiting() != 0) usleep(1000);
    // All threads end before the first lane goes: one may still be waking another lane up.
    for (const auto& lane : lanes_) lane->stop();
}

// Calls that move no data still take their place in the queue, or an endless number could be in flight.
size_t Engine::cost(const Request& request) {
    bool transfer = request.op == Op::read || request.op == Op::write;
    return transfer ? std::max<size_t>(request.length, 4096) : 4096;
}

void Engine::submit(Request& request) {
    request.error = 0;
    request.done = 0;
    request.retries = 0;
    request.engine = this;
    request.waiter.bytes = cost(request);
    metrics_of(request.op).in_flight.add(1);
    in_flight_bytes.add(static_cast<int64_t>(request.waiter.bytes));
    if (request.budget == nullptr) return admit(request);
    request.waiter.granted = own_budget_granted;
    if (request.budget->acquire(request.waiter)) admit(request);
}

void Engine::own_budget_granted(Budget::Waiter& waiter) {
    Request& request = request_of(waiter);
    request.engine->admit(request);
}

void Engine::admit(Request& request) {
    request.waiter.granted = granted;
    if (budget_.acquire(request.waiter)) dispatch(request);
}

void Engine::granted(Budget::Waiter& waiter) {
    Request& request = request_of(waiter);
    request.engine->dispatch(request);
}

void Engine::dispatch(Request& request) {
    int cpu = sched_getcpu();
    lanes_[static_cast<unsigned>(cpu < 0 ? 0 : cpu) % lanes_.size()]->submit(request);
}

// Once complete() runs, the request and the caller's budget may be gone: both budgets are settled before it.
void Engine::finished(Request& request) {
    OpMetrics& metrics = metrics_of(request.op);
    metrics.in_flight.add(-1);
    in_flight_bytes.add(-static_cast<int64_t>(request.waiter.bytes));
    if (request.error != 0) metrics.errors.add(1);
    Engine* engine = request.engine;
    Budget* own = request.budget;
    size_t bytes = request.waiter.bytes;
    if (own != nullptr) own->release(bytes);
    engine->budget_.release(bytes);
    request.complete(request);
}

}  // namespace fabric::io
