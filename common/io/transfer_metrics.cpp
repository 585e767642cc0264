#include "common/io/transfer_metrics.h"

#include <memory>
#include <string>

#include "common/metrics.h"

namespace fabric::io {
namespace {

struct Series {
    Series(const char* direction, const char* path)
        : labels("direction=\"" + std::string(direction) + "\",path=\"" + path + "\""),
          bytes("fabric_bytes_total", "Bytes of file data moved", labels),
          copied("fabric_copied_bytes_total", "Bytes of file data that a CPU copied on the server", labels) {}
    std::string labels;
    metrics::Counter bytes;
    metrics::Counter copied;
};

// Made before main, so that a scrape shows zeros before the first transfer.
Series series[2][4] = {{{"read", "direct"}, {"read", "page_cache"}, {"read", "bounce"}, {"read", "burst_buffer"}},
                       {{"write", "direct"}, {"write", "page_cache"}, {"write", "bounce"}, {"write", "burst_buffer"}}};

}  // namespace

void count_transfer(Direction direction, Path path, size_t bytes) {
    Series& one = series[static_cast<size_t>(direction)][static_cast<size_t>(path)];
    one.bytes.add(static_cast<int64_t>(bytes));
    if (path == Path::page_cache || path == Path::bounce) one.copied.add(static_cast<int64_t>(bytes));
}

uint64_t transferred(Direction direction) {
    int64_t bytes = 0;
    for (const Series& one : series[static_cast<size_t>(direction)]) bytes += one.bytes.value();
    return static_cast<uint64_t>(bytes);
}

}  // namespace fabric::io
