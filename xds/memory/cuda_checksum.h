// CRC32C of GPU memory by a kernel, without a copy of the data.
#pragma once

#include <map>
#include <mutex>

#include "xds/memory/cuda_driver.h"

namespace fabric::xds::memory {

// Thread safe: one sum at a time.
class CudaChecksum {
  public:
    explicit CudaChecksum(const CudaDriver& driver) : driver_(driver) {}

    // ENOTSUP: built without nvcc, or the driver does not take what nvcc made (it is older than the toolkit). The
    // context is current, and the stream is of it.
    Result<uint32_t> extend(uint32_t seed, CuContext context, CuStream stream, CuDevicePointer from, size_t length);

  private:
    struct Kernel {
        CuFunction function = nullptr;
        uint32_t* sums = nullptr;  // memory of the host that the device writes into
        CuDevicePointer sums_on_device = 0;
        CuResult result = 0;  // why there is none
    };
    Kernel& kernel_of(CuContext context);

    const CudaDriver& driver_;
    std::mutex mutex_;
    std::map<CuContext, Kernel> kernels_;
};

}  // namespace fabric::xds::memory
