// What write-back of this process did.
#pragma once

#include "common/metrics.h"

namespace fabric::writeback {

struct Metrics {
    metrics::Gauge dirty_bytes{"fabric_writeback_dirty_bytes", "Bytes on the disks that the backing store lacks"};
    metrics::Gauge dirty_files{"fabric_writeback_dirty_files", "Files that the backing store lacks something of"};
    metrics::Counter taken{"fabric_writeback_bytes_total", "Bytes taken, drained, and written through instead",
                           "way=\"taken\""};
    metrics::Counter drained{"fabric_writeback_bytes_total", "Bytes taken, drained, and written through instead",
                             "way=\"drained\""};
    metrics::Counter through{"fabric_writeback_bytes_total", "Bytes taken, drained, and written through instead",
                             "way=\"through\""};
    metrics::Counter failures{"fabric_writeback_failures_total", "Drains that failed and are tried again"};
    metrics::Counter syncs{"fabric_writeback_syncs_total", "Times that written bytes were made durable on the disks"};
};

inline Metrics& metrics() {
    static Metrics all;
    return all;
}

}  // namespace fabric::writeback
