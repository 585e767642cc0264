// Counters and gauges that cost one uncontended atomic add, kept in a process-wide list and printed in Prometheus' text
// form (https://prometheus.io/docs/instrumenting/exposition_formats/). Names end in _total for counters; units stand in
// the name.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace fabric::metrics {

enum class Kind { counter, gauge };

// One time series. Objects are static or live as long as the process: the list keeps pointers to them.
// add() and value() may be called from any thread; add() touches only the calling thread's shard.
class Metric {
  public:
    // `labels` is the text between the braces, e.g. `path="direct"`, or empty.
    Metric(Kind kind, std::string name, std::string help, std::string labels = {});
    Metric(const Metric&) = delete;
    Metric& operator=(const Metric&) = delete;

    void add(int64_t amount) { shards_[shard()].value.fetch_add(amount, std::memory_order_relaxed); }
    int64_t value() const;

    Kind kind() const { return kind_; }
    const std::string& name() const { return name_; }
    const std::string& help() const { return help_; }
    const std::string& labels() const { return labels_; }

  private:
    static constexpr size_t shard_count = 16;
    struct alignas(64) Shard {
        std::atomic<int64_t> value{0};
    };
    static size_t shard();

    Kind kind_;
    std::string name_, help_, labels_;
    std::array<Shard, shard_count> shards_;
};

class Counter : public Metric {
  public:
    Counter(std::string name, std::string help, std::string labels = {})
        : Metric(Kind::counter, std::move(name), std::move(help), std::move(labels)) {}
};

class Gauge : public Metric {
  public:
    Gauge(std::string name, std::string help, std::string labels = {})
        : Metric(Kind::gauge, std::move(name), std::move(help), std::move(labels)) {}
};

// All metrics made so far, by name, then labels.
std::vector<const Metric*> all();
std::string render_text();

}  // namespace fabric::metrics
