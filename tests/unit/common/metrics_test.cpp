#include "common/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace fabric::metrics {
namespace {

TEST(Metrics, ThreadsLoseNoCount) {
    static Counter counter("test_threads_total", "Counted by many threads.");
    std::vector<std::thread> threads;
    for (int i = 0; i < 20; ++i)
        threads.emplace_back([] {
            for (int j = 0; j < 10000; ++j) counter.add(3);
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(counter.value(), 20 * 10000 * 3);
}

TEST(Metrics, RendersPrometheusTextWithOneHeaderPerName) {
    static Counter tcp("test_bytes_total", "Bytes moved.", "path=\"tcp\"");
    static Counter direct("test_bytes_total", "Bytes moved.", "path=\"direct\"");
    static Gauge open("test_open", "Open things.");
    direct.add(5);
    open.add(2);
    open.add(-3);
    EXPECT_THAT(render_text(), testing::HasSubstr("# HELP test_bytes_total Bytes moved.\n"
                                                  "# TYPE test_bytes_total counter\n"
                                                  "test_bytes_total{path=\"direct\"} 5\n"
                                                  "test_bytes_total{path=\"tcp\"} 0\n"
                                                  "# HELP test_open Open things.\n"
                                                  "# TYPE test_open gauge\n"
                                                  "test_open -1\n"));
}

}  // namespace
}  // namespace fabric::metrics
