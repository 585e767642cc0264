// What the cache of this process did.
#pragma once

#include "common/metrics.h"

namespace fabric::cache {

struct CacheMetrics {
    metrics::Counter memory{"fabric_cache_chunks_total", "Chunks that readers asked for, by where they came from",
                            "from=\"memory\""};
    metrics::Counter disk{"fabric_cache_chunks_total", "Chunks that readers asked for, by where they came from",
                          "from=\"disk\""};
    metrics::Counter backing{"fabric_cache_chunks_total", "Chunks that readers asked for, by where they came from",
                             "from=\"backing\""};
    metrics::Counter passed{"fabric_cache_chunks_total", "Chunks that readers asked for, by where they came from",
                            "from=\"reader\""};
    metrics::Counter fetched_bytes{"fabric_cache_fetched_bytes_total",
                                   "Bytes that the cache read from the backing store"};
    metrics::Counter copied_bytes{
        "fabric_cache_copied_bytes_total",
        "Bytes that a CPU copied to readers: from memory, or as they came from the backing store"};
    metrics::Counter admitted{"fabric_cache_admitted_total", "Chunks taken into the cache"};
    metrics::Counter over_quota{"fabric_cache_over_quota_total", "Chunks not taken since their dataset has its quota"};
    metrics::Counter evicted{"fabric_cache_evicted_total", "Chunks dropped to make room"};
    metrics::Counter expired{"fabric_cache_expired_total", "Chunks dropped at the end of their time to live"};
    metrics::Counter read_ahead{"fabric_cache_read_ahead_total", "Chunks fetched before they were asked for"};
    metrics::Counter stale{"fabric_cache_stale_total", "Fetches of files that changed meanwhile"};
};

inline CacheMetrics& metrics() {
    static CacheMetrics all;
    return all;
}

}  // namespace fabric::cache
