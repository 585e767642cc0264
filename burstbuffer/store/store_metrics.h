// What the local stores of this process did.
#pragma once

#include "common/metrics.h"

namespace fabric::store {

struct StoreMetrics {
    metrics::Counter hits{"fabric_store_reads_total", "Reads of chunks that the local stores had", "result=\"hit\""};
    metrics::Counter misses{"fabric_store_reads_total", "Reads of chunks that the local stores had", "result=\"miss\""};
    metrics::Counter damaged{"fabric_store_damaged_total", "Chunks whose bytes did not match their checksum"};
    metrics::Counter bytes_read{"fabric_store_bytes_total", "Bytes of chunks read and written", "direction=\"read\""};
    metrics::Counter bytes_written{"fabric_store_bytes_total", "Bytes of chunks read and written",
                                   "direction=\"write\""};
    metrics::Counter bytes_moved{"fabric_store_moved_bytes_total",
                                 "Bytes written again to make room where they lay before"};
    metrics::Counter bytes_copied{"fabric_store_copied_bytes_total",
                                  "Bytes that a CPU copied on their way from or to disk"};
};

inline StoreMetrics& metrics() {
    static StoreMetrics all;
    return all;
}

}  // namespace fabric::store
