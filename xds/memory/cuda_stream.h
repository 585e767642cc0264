// Work in the order of a CUDA stream of the program's.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "common/reused.h"
#include "xds/memory/cuda_driver.h"
#include "xds/memory/work_stream.h"

namespace fabric::xds::memory {

// A host function of the stream hands the work to a thread of ours when its turn has come, and the stream waits for a
// word of memory that says that it is over. The work itself must not run in the host function, where CUDA forbids its
// own functions, copies among them. Where a driver has no waiting for memory, the call waits instead of the stream.
class CudaStream : public WorkStream {
  public:
    // `native` null: the default stream of the context that is current in each call.
    static Result<std::unique_ptr<WorkStream>> open(const CudaDriver& driver, CuStream native);
    ~CudaStream() override;

    // ENOTSUP: the stream records a graph, which might run the work more than once.
    Status enqueue(StreamWork& work) override;
    Status synchronize() override;
    Status stop() override;

  private:
    struct Job;

    CudaStream(const CudaDriver& driver, CuStream native, std::unique_ptr<ThreadStream> thread);
    Status set_up();
    static void turn_has_come(void* job);
    Status now(StreamWork& work);
    Status wait_for_stream();

    const CudaDriver& driver_;
    const CuStream native_;
    std::mutex mutex_;  // of enqueueing: what hands over and what waits are neighbours in the stream
    bool stopped_ = false;
    uint32_t last_ = 0;                      // number of the last piece
    std::atomic<uint32_t>* word_ = nullptr;  // number of the last one that is over, in memory of the driver's
    CuDevicePointer word_on_device_ = 0;
    Reused<Job> jobs_;
    std::unique_ptr<ThreadStream> thread_;  // gone before the jobs are
};

}  // namespace fabric::xds::memory
