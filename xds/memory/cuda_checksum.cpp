#include "xds/memory/cuda_checksum.h"

#include <algorithm>

#include "common/crc32c.h"
#include "xds/memory/crc32c_pieces.h"

namespace fabric::xds::memory {
namespace {

#ifdef XDS_CUDA_KERNEL
constexpr const char* kernel_code =
#include XDS_CUDA_KERNEL
    ;
#else
constexpr const char* kernel_code = nullptr;
#endif

constexpr unsigned threads = 128;
constexpr size_t most_pieces = 4096;  // at once: 16 MiB
constexpr unsigned host_portable = 1, host_mapped = 2;

}  // namespace

CudaChecksum::Kernel& CudaChecksum::kernel_of(CuContext context) {
    auto [found, fresh] = kernels_.try_emplace(context);
    Kernel& kernel = found->second;
    if (!fresh) return kernel;
    CuModule module = nullptr;
    void* sums = nullptr;
    kernel.result = driver_.load_module(&module, kernel_code);
    if (kernel.result == 0) kernel.result = driver_.module_function(&kernel.function, module, "xds_crc32c");
    if (kernel.result == 0)
        kernel.result = driver_.allocate_host(&sums, most_pieces * sizeof(uint32_t), host_portable | host_mapped);
    if (kernel.result == 0) kernel.result = driver_.host_device_pointer(&kernel.sums_on_device, sums, 0);
    kernel.sums = static_cast<uint32_t*>(sums);
    return kernel;
}

Result<uint32_t> CudaChecksum::extend(uint32_t seed, CuContext context, CuStream stream, CuDevicePointer from,
                                      size_t length) {
    auto none = [](const char* why) { return Status(Code::invalid, ENOTSUP, why); };
    if (kernel_code == nullptr || driver_.load_module == nullptr || driver_.module_function == nullptr ||
        driver_.launch_kernel == nullptr)
        return none("built without nvcc");
    std::lock_guard lock(mutex_);
    Kernel& kernel = kernel_of(context);
    if (kernel.result != 0) return none("the driver does not take the kernel");
    for (size_t at = 0; at < length;) {
        unsigned long long now = std::min(length - at, most_pieces * crc32c_piece);
        auto pieces = static_cast<unsigned>((now + crc32c_piece - 1) / crc32c_piece);
        CuDevicePointer start = from + at;
        void* arguments[] = {&start, &now, &kernel.sums_on_device};
        CuResult result = driver_.launch_kernel(kernel.function, (pieces + threads - 1) / threads, 1, 1, threads, 1, 1,
                                                0, stream, arguments, nullptr);
        if (result == 0) result = driver_.synchronize_stream(stream);
        if (result != 0) return driver_.failed(result);
        for (unsigned piece = 0; piece < pieces; ++piece) {
            size_t bytes = std::min<size_t>(crc32c_piece, now - size_t{piece} * crc32c_piece);
            seed = crc32c_combine(seed, kernel.sums[piece], bytes);
        }
        at += now;
    }
    return seed;
}

}  // namespace fabric::xds::memory
