#include "common/metrics_http.h"

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>

#include <exception>

#include "common/metrics.h"

namespace fabric::metrics {
namespace {

// "a=\"x\",b=\"y\"" to pairs; the labels are written in our own code, so their form is known.
std::vector<prometheus::ClientMetric::Label> parse_labels(const std::string& labels) {
    std::vector<prometheus::ClientMetric::Label> pairs;
    size_t at = 0;
    while (at < labels.size()) {
        size_t equals = labels.find("=\"", at);
        if (equals == std::string::npos) break;
        size_t end = labels.find('"', equals + 2);
        if (end == std::string::npos) break;
        pairs.push_back({labels.substr(at, equals - at), labels.substr(equals + 2, end - equals - 2)});
        at = labels.find_first_not_of(", ", end + 1);
    }
    return pairs;
}

class Collector : public prometheus::Collectable {
  public:
    std::vector<prometheus::MetricFamily> Collect() const override {
        std::vector<prometheus::MetricFamily> families;
        for (const Metric* metric : all()) {
            bool counter = metric->kind() == Kind::counter;
            if (families.empty() || families.back().name != metric->name()) {
                prometheus::MetricFamily family;
                family.name = metric->name();
                family.help = metric->help();
                family.type = counter ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge;
                families.push_back(std::move(family));
            }
            prometheus::ClientMetric sample;
            sample.label = parse_labels(metric->labels());
            (counter ? sample.counter.value : sample.gauge.value) = static_cast<double>(metric->value());
            families.back().metric.push_back(std::move(sample));
        }
        return families;
    }
};

}  // namespace

struct HttpServer::Impl {
    explicit Impl(const std::string& address) : exposer(address, 1), collector(std::make_shared<Collector>()) {
        exposer.RegisterCollectable(collector);
    }
    prometheus::Exposer exposer;
    std::shared_ptr<Collector> collector;
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

Result<std::unique_ptr<HttpServer>> HttpServer::start(const std::string& address) {
    try {
        return std::unique_ptr<HttpServer>(new HttpServer(std::make_unique<Impl>(address)));
    } catch (const std::exception& error) {
        return Status(Code::io, EADDRNOTAVAIL, "metrics cannot be served at " + address + ": " + error.what());
    }
}

int HttpServer::port() const { return impl_->exposer.GetListeningPorts().at(0); }

}  // namespace fabric::metrics
