// The node's cache as the XDS target asks it.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "burstbuffer/cache/cache.h"
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
    Call& take();

    cache::Cache& cache_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<Call>> calls_;  // used again and again
    Call* free_ = nullptr;
};

}  // namespace fabric::xds::fabricd
