// How the disks of this process are doing.
#pragma once

#include "common/metrics.h"

namespace fabric::disks {

struct DisksMetrics {
    metrics::Counter failures{"fabric_disk_failures_total", "Transfers of the burst buffer's disks that failed"};
    metrics::Counter rests{"fabric_disk_rests_total", "Times that a failing disk was set aside"};
    metrics::Counter returns{"fabric_disk_returns_total", "Times that a disk was taken back after a good probe"};
    metrics::Counter retired{"fabric_disk_retired_total", "Disks given up until the next start"};
    metrics::Counter refused{"fabric_disk_refused_total", "Chunks not taken since a disk was full or failing"};
};

inline DisksMetrics& metrics() {
    static DisksMetrics all;
    return all;
}

}  // namespace fabric::disks
