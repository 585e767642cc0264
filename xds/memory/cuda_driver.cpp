#include "xds/memory/cuda_driver.h"

#include <dlfcn.h>

#include <string>

namespace fabric::xds::memory {
namespace {

template <typename F>
bool load(void* library, const char* name, F& function) {
    function = reinterpret_cast<F>(dlsym(library, name));
    return function != nullptr;
}

bool load_all(void* library, CudaDriver& driver) {
    load(library, "cuMemGetHandleForAddressRange", driver.range_handle);
    load(library, "cuStreamWaitValue32_v2", driver.wait_value);
    load(library, "cuDeviceGetAttribute", driver.device_attribute);
    load(library, "cuPointerSetAttribute", driver.set_pointer_attribute);
    load(library, "cuFlushGPUDirectRDMAWrites", driver.flush_remote_writes);
    load(library, "cuMemHostRegister_v2", driver.register_host);
    load(library, "cuMemHostUnregister", driver.unregister_host);
    load(library, "cuDeviceGet", driver.device);
    load(library, "cuModuleLoadData", driver.load_module);
    load(library, "cuModuleGetFunction", driver.module_function);
    load(library, "cuLaunchKernel", driver.launch_kernel);
    load(library, "cuDeviceGetUuid_v2", driver.uuid);
    load(library, "cuDeviceGetPCIBusId", driver.pci_bus);
    return load(library, "cuInit", driver.init) && load(library, "cuDeviceGetCount", driver.device_count) &&
           load(library, "cuPointerGetAttribute", driver.pointer_attribute) &&
           load(library, "cuDevicePrimaryCtxRetain", driver.primary_context) &&
           load(library, "cuCtxGetCurrent", driver.current_context) &&
           load(library, "cuCtxPushCurrent_v2", driver.push_context) &&
           load(library, "cuCtxPopCurrent_v2", driver.pop_context) &&
           load(library, "cuMemcpyHtoDAsync_v2", driver.copy_in) &&
           load(library, "cuMemcpyDtoHAsync_v2", driver.copy_out) &&
           load(library, "cuGetErrorName", driver.error_name) &&
           load(library, "cuCtxGetStreamPriorityRange", driver.stream_priorities) &&
           load(library, "cuStreamCreateWithPriority", driver.create_stream) &&
           load(library, "cuStreamSynchronize", driver.synchronize_stream) &&
           load(library, "cuStreamGetCtx", driver.stream_context) &&
           load(library, "cuStreamIsCapturing", driver.stream_is_capturing) &&
           load(library, "cuLaunchHostFunc", driver.launch_host_function) &&
           load(library, "cuMemHostAlloc", driver.allocate_host) && load(library, "cuMemFreeHost", driver.free_host) &&
           load(library, "cuMemHostGetDevicePointer_v2", driver.host_device_pointer);
}

const CudaDriver* find_driver() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return nullptr;
    CudaDriver driver;
    int devices = 0;
    if (!load_all(library, driver) || driver.init(0) != 0 || driver.device_count(&devices) != 0 || devices == 0) {
        dlclose(library);
        return nullptr;
    }
    return new CudaDriver(driver);  // never destroyed, as the driver is never unloaded
}

}  // namespace

Status CudaDriver::failed(CuResult result) const {
    const char* text = nullptr;
    if (error_name(result, &text) != 0 || text == nullptr) text = "unknown error";
    return {Code::io, EIO, "CUDA driver: " + std::string(text) + " (" + std::to_string(result) + ")"};
}

const CudaDriver* cuda_driver() {
    static const CudaDriver* driver = find_driver();
    return driver;
}

CurrentContext::CurrentContext(const CudaDriver& driver, CuContext context)
    : driver_(driver), result_(driver.push_context(context)) {}

CurrentContext::~CurrentContext() {
    CuContext left = nullptr;
    if (result_ == 0) driver_.pop_context(&left);
}

}  // namespace fabric::xds::memory
