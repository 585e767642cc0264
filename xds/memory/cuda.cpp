#include "xds/memory/cuda.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>

#include "common/crc32c.h"

namespace fabric::xds::memory {
namespace {

// The part of the driver's interface that is used (CUDA Driver API reference: "Unified Addressing", "Memory
// Management", "Context Management"), declared here so that building needs no CUDA headers.
using CuResult = int;
using CuDevicePointer = unsigned long long;
using CuContext = struct CuContextTag*;
constexpr int attribute_context = 1, attribute_memory_type = 2, attribute_buffer_id = 7, attribute_device = 9,
              attribute_range_start = 11, attribute_range_size = 12;
constexpr unsigned memory_type_device = 2;
constexpr int handle_type_dmabuf = 1;

struct Driver {
    CuResult (*init)(unsigned) = nullptr;
    CuResult (*device_count)(int*) = nullptr;
    CuResult (*pointer_attribute)(void*, int, CuDevicePointer) = nullptr;
    CuResult (*primary_context)(CuContext*, int) = nullptr;
    CuResult (*push_context)(CuContext) = nullptr;
    CuResult (*pop_context)(CuContext*) = nullptr;
    CuResult (*copy_in)(CuDevicePointer, const void*, size_t) = nullptr;
    CuResult (*copy_out)(void*, CuDevicePointer, size_t) = nullptr;
    CuResult (*error_name)(CuResult, const char**) = nullptr;
    // Null before CUDA 11.7.
    CuResult (*range_handle)(void*, CuDevicePointer, size_t, int, unsigned long long) = nullptr;
};

template <typename F>
bool load(void* library, const char* name, F& function) {
    function = reinterpret_cast<F>(dlsym(library, name));
    return function != nullptr;
}

class Cuda : public Kind {
  public:
    explicit Cuda(const Driver& driver) : driver_(driver) {}

    std::string_view name() const override { return "cuda"; }
    bool host_accessible() const override { return false; }

    std::optional<Allocation> identify(const void* address) const override {
        unsigned type = 0;
        auto at = reinterpret_cast<CuDevicePointer>(address);
        if (driver_.pointer_attribute(&type, attribute_memory_type, at) != 0 || type != memory_type_device)
            return std::nullopt;
        Allocation found;
        CuDevicePointer start = 0;
        unsigned long long id = 0;
        if (driver_.pointer_attribute(&id, attribute_buffer_id, at) != 0 ||
            driver_.pointer_attribute(&found.device, attribute_device, at) != 0 ||
            driver_.pointer_attribute(&start, attribute_range_start, at) != 0 ||
            driver_.pointer_attribute(&found.size, attribute_range_size, at) != 0)
            return std::nullopt;
        found.id = id;
        found.base = start;
        return found;
    }

    Status copy_in(void* to, const void* from_host, size_t length) const override {
        return with_context(to,
                            [&] { return driver_.copy_in(reinterpret_cast<CuDevicePointer>(to), from_host, length); });
    }
    Status copy_out(void* to_host, const void* from, size_t length) const override {
        return with_context(from,
                            [&] { return driver_.copy_out(to_host, reinterpret_cast<CuDevicePointer>(from), length); });
    }

    // Through host memory, piece by piece.
    Result<uint32_t> crc32c(uint32_t seed, const void* from, size_t length) const override {
        constexpr size_t piece = 1 << 20;
        auto bounce = std::make_unique<char[]>(std::min(piece, length));
        for (size_t at = 0; at < length; at += piece) {
            size_t now = std::min(piece, length - at);
            FABRIC_RETURN_IF_ERROR(copy_out(bounce.get(), static_cast<const char*>(from) + at, now));
            seed = crc32c_extend(seed, bounce.get(), now);
        }
        return seed;
    }

    // The driver exports whole pages of the host's page size.
    Result<DmaBuf> export_dmabuf(const void* address, size_t length) const override {
        if (driver_.range_handle == nullptr)
            return Status(Code::invalid, ENOTSUP, "the CUDA driver is older than 11.7 and has no dma-buf export");
        auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
        uintptr_t at = reinterpret_cast<uintptr_t>(address), start = at / page * page;
        uintptr_t end = (at + length + page - 1) / page * page;
        int fd = -1;
        FABRIC_RETURN_IF_ERROR(with_context(
            address, [&] { return driver_.range_handle(&fd, start, end - start, handle_type_dmabuf, 0); }));
        return DmaBuf{UniqueFd(fd), at - start};
    }
    size_t aperture(int /*device*/) const override { return SIZE_MAX; }

  private:
    // Runs the call with the context of the memory's own device, and leaves the caller's current one as it was.
    template <typename F>
    Status with_context(const void* address, F&& call) const {
        CuContext context = nullptr, left = nullptr;
        auto at = reinterpret_cast<CuDevicePointer>(address);
        CuResult result = driver_.pointer_attribute(&context, attribute_context, at);
        if (result == 0 && context == nullptr) {  // from a memory pool: it belongs to the device
            int device = 0;
            result = driver_.pointer_attribute(&device, attribute_device, at);
            if (result == 0) result = driver_.primary_context(&context, device);
        }
        if (result != 0) return failed(result);
        if ((result = driver_.push_context(context)) != 0) return failed(result);
        result = call();
        driver_.pop_context(&left);
        return result == 0 ? Status() : failed(result);
    }
    Status failed(CuResult result) const {
        const char* text = nullptr;
        if (driver_.error_name(result, &text) != 0 || text == nullptr) text = "unknown error";
        return {Code::io, EIO, "CUDA driver: " + std::string(text) + " (" + std::to_string(result) + ")"};
    }

    const Driver driver_;
};

const Kind* load_cuda() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return nullptr;
    Driver driver;
    bool complete =
        load(library, "cuInit", driver.init) && load(library, "cuDeviceGetCount", driver.device_count) &&
        load(library, "cuPointerGetAttribute", driver.pointer_attribute) &&
        load(library, "cuDevicePrimaryCtxRetain", driver.primary_context) &&
        load(library, "cuCtxPushCurrent_v2", driver.push_context) &&
        load(library, "cuCtxPopCurrent_v2", driver.pop_context) && load(library, "cuMemcpyHtoD_v2", driver.copy_in) &&
        load(library, "cuMemcpyDtoH_v2", driver.copy_out) && load(library, "cuGetErrorName", driver.error_name);
    load(library, "cuMemGetHandleForAddressRange", driver.range_handle);
    int devices = 0;
    if (!complete || driver.init(0) != 0 || driver.device_count(&devices) != 0 || devices == 0) {
        dlclose(library);
        return nullptr;
    }
    return new Cuda(driver);  // never destroyed, as the driver is never unloaded
}

}  // namespace

const Kind* cuda() {
    static const Kind* kind = load_cuda();
    return kind;
}

}  // namespace fabric::xds::memory
