// The part of the CUDA driver's interface that is used, declared here so that building needs no CUDA headers (CUDA
// Driver API reference: "Unified Addressing", "Memory Management", "Context Management", "Stream Management", "Stream
// Memory Operations"). Versioned names are those of CUDA 11.7 and later, which have not changed since.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/result.h"

namespace fabric::xds::memory {

using CuResult = int;
using CuDevicePointer = unsigned long long;
using CuContext = struct CuContextTag*;
using CuStream = struct CuStreamTag*;
using CuModule = struct CuModuleTag*;
using CuFunction = struct CuFunctionTag*;

struct CudaDriver {
    CuResult (*init)(unsigned) = nullptr;
    CuResult (*device_count)(int*) = nullptr;
    CuResult (*pointer_attribute)(void*, int, CuDevicePointer) = nullptr;
    CuResult (*primary_context)(CuContext*, int) = nullptr;
    CuResult (*current_context)(CuContext*) = nullptr;
    CuResult (*push_context)(CuContext) = nullptr;
    CuResult (*pop_context)(CuContext*) = nullptr;
    CuResult (*copy_in)(CuDevicePointer, const void*, size_t, CuStream) = nullptr;
    CuResult (*copy_out)(void*, CuDevicePointer, size_t, CuStream) = nullptr;
    CuResult (*error_name)(CuResult, const char**) = nullptr;
    CuResult (*stream_priorities)(int* least, int* greatest) = nullptr;
    CuResult (*create_stream)(CuStream*, unsigned flags, int priority) = nullptr;
    CuResult (*synchronize_stream)(CuStream) = nullptr;
    CuResult (*stream_context)(CuStream, CuContext*) = nullptr;
    CuResult (*stream_is_capturing)(CuStream, int*) = nullptr;
    CuResult (*launch_host_function)(CuStream, void (*)(void*), void*) = nullptr;
    CuResult (*allocate_host)(void**, size_t, unsigned) = nullptr;
    CuResult (*free_host)(void*) = nullptr;
    CuResult (*host_device_pointer)(CuDevicePointer*, void*, unsigned) = nullptr;
    CuResult (*device)(int* device, int index) = nullptr;
    CuResult (*uuid)(void* sixteen_bytes, int device) = nullptr;
    CuResult (*pci_bus)(char* text, int room, int device) = nullptr;
    CuResult (*load_module)(CuModule*, const void*) = nullptr;
    CuResult (*module_function)(CuFunction*, CuModule, const char*) = nullptr;
    CuResult (*launch_kernel)(CuFunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                              CuStream, void**, void**) = nullptr;
    // Null before CUDA 11.7.
    CuResult (*wait_value)(CuStream, CuDevicePointer, uint32_t, unsigned) = nullptr;
    CuResult (*range_handle)(void*, CuDevicePointer, size_t, int, unsigned long long) = nullptr;
    // Null where a driver lacks them.
    CuResult (*device_attribute)(int* value, int attribute, int device) = nullptr;
    CuResult (*set_pointer_attribute)(const void* value, int attribute, CuDevicePointer) = nullptr;
    CuResult (*flush_remote_writes)(int target, int scope) = nullptr;
    CuResult (*register_host)(void*, size_t, unsigned) = nullptr;
    CuResult (*unregister_host)(void*) = nullptr;

    Status failed(CuResult result) const;
};

// Null: there is no driver or no device on this machine. The first call loads the driver, which stays.
const CudaDriver* cuda_driver();

// Makes a context current in this thread, and the one before again at the end.
class CurrentContext {
  public:
    CurrentContext(const CudaDriver& driver, CuContext context);
    ~CurrentContext();
    CurrentContext(const CurrentContext&) = delete;
    CurrentContext& operator=(const CurrentContext&) = delete;
    CuResult result() const { return result_; }

  private:
    const CudaDriver& driver_;
    const CuResult result_;
};

}  // namespace fabric::xds::memory
