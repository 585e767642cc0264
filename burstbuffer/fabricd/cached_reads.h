// The node's cache as the XDS target asks it.
#pragma once

#include "burstbuffer/cache/cache.h"
#include "common/reused.h"
#include "xds/target/read_cache.h"

namespace fabric::xds::fabricd {

// Thread safe. The cache outlives it, and it the target.
class CachedReads : public target::ReadCache {
  public:
    explicit CachedReads(cache::Cache& cache) : cache_(cache) {}
    // No request may be in flight.
    ~CachedReads() override = default;
    void start(Request& request) override;

  private:
    struct Call : cache::Read {
        CachedReads* owner = nullptr;
        Request* request = nullptr;
        Call* next_free = nullptr;
    };
    static void finished(cache::Read& read);

    cache::Cache& cache_;
    Reused<Call> calls_;
};

}  // namespace fabric::xds::fabricd
