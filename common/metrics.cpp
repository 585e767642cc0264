#include "common/metrics.h"

#include <algorithm>
#include <mutex>
#include <tuple>

namespace fabric::metrics {
namespace {

struct Registry {
    std::mutex mutex;
    std::vector<const Metric*> metrics;
};

// Never destroyed, so that a static metric of any translation unit may be used at any time.
Registry& registry() {
    static auto* instance = new Registry;
    return *instance;
}

}  // namespace

Metric::Metric(Kind kind, std::string name, std::string help, std::string labels)
    : kind_(kind), name_(std::move(name)), help_(std::move(help)), labels_(std::move(labels)) {
    std::lock_guard lock(registry().mutex);
    registry().metrics.push_back(this);
}

size_t Metric::shard() {
    static std::atomic<size_t> next{0};
    static thread_local const size_t mine = next.fetch_add(1, std::memory_order_relaxed) % shard_count;
    return mine;
}

int64_t Metric::value() const {
    int64_t sum = 0;
    for (const Shard& shard : shards_) sum += shard.value.load(std::memory_order_relaxed);
    return sum;
}

std::vector<const Metric*> all() {
    std::lock_guard lock(registry().mutex);
    std::vector<const Metric*> metrics = registry().metrics;
    std::sort(metrics.begin(), metrics.end(), [](const Metric* a, const Metric* b) {
        return std::tie(a->name(), a->labels()) < std::tie(b->name(), b->labels());
    });
    return metrics;
}

std::string render_text() {
    std::string text;
    const std::string* previous = nullptr;
    for (const Metric* metric : all()) {
        if (previous == nullptr || *previous != metric->name()) {
            text += "# HELP " + metric->name() + " " + metric->help() + "\n";
            text += "# TYPE " + metric->name() + (metric->kind() == Kind::counter ? " counter\n" : " gauge\n");
        }
        previous = &metric->name();
        text += metric->name();
        if (!metric->labels().empty()) text += "{" + metric->labels() + "}";
        text += " " + std::to_string(metric->value()) + "\n";
    }
    return text;
}

}  // namespace fabric::metrics
