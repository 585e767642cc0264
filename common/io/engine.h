// The asynchronous I/O engine: lanes, and the limit on bytes in flight.
#pragma once

#include <memory>
#include <vector>

#include "common/io/budget.h"
#include "common/io/request.h"
#include "common/result.h"

namespace fabric::io {

class Lane;

struct EngineOptions {
    // Rings with a thread each; 0: one per online CPU, at most 16.
    unsigned lanes = 0;
    // Operations in the kernel at once, per lane.
    unsigned depth = 128;
    // Bytes of all transfers in the kernel at once; what is beyond waits, first come, first served.
    size_t bytes_in_flight = size_t{256} << 20;
};

class Engine {
  public:
    static Result<std::unique_ptr<Engine>> start(const EngineOptions& options);
    // Everything submitted completes first.
    ~Engine();

    // Any thread; returns at once. complete() follows on a lane's thread. Waiting for room in the request's or the
    // engine's budget happens in a queue, not in the caller. Sets error and done to 0 first.
    void submit(Request& request);

    size_t bytes_in_flight() const { return budget_.used(); }
    size_t queued() const { return budget_.waiting(); }
    size_t lanes() const { return lanes_.size(); }

  private:
    explicit Engine(const EngineOptions& options);
    static size_t cost(const Request& request);
    static void own_budget_granted(Budget::Waiter& waiter);
    static void granted(Budget::Waiter& waiter);
    static void finished(Request& request);
    void admit(Request& request);
    void dispatch(Request& request);

    Budget budget_;
    std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace fabric::io
