#include "xds/memory/cuda.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>

#include "common/crc32c.h"
#include "xds/memory/cuda_checksum.h"
#include "xds/memory/cuda_driver.h"
#include "xds/memory/cuda_stream.h"

namespace fabric::xds::memory {
namespace {

constexpr int attribute_context = 1, attribute_memory_type = 2, attribute_buffer_id = 7, attribute_device = 9,
              attribute_range_start = 11, attribute_range_size = 12;
constexpr unsigned memory_type_device = 2;
constexpr int attribute_sync_memops = 6;  // of a pointer
constexpr int device_rdma = 116, device_flush_options = 117, device_writes_ordering = 118, device_dmabuf = 124;
constexpr int flush_by_host = 1;        // bit of device_flush_options
constexpr int ordered_for_owner = 100;  // of device_writes_ordering: nothing has to be flushed
constexpr int flush_current_context = 0, flush_to_owner = 100;
constexpr unsigned host_portable = 1;
constexpr int handle_type_dmabuf = 1;
constexpr unsigned stream_non_blocking = 1;

// Of a GPU, by its PCI address as CUDA writes it.
uint64_t bar_of_device(std::string bus) {
    for (char& digit : bus) digit = static_cast<char>(std::tolower(digit));
    std::ifstream file("/sys/bus/pci/devices/" + bus + "/resource");
    return bar_size(std::string(std::istreambuf_iterator<char>(file), {}), 1);
}

class Cuda : public Kind {
  public:
    explicit Cuda(const CudaDriver& driver) : driver_(driver), checksum_(driver) {}

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
        return copy(to, [&](CuStream stream) {
            return driver_.copy_in(reinterpret_cast<CuDevicePointer>(to), from_host, length, stream);
        });
    }
    Status copy_out(void* to_host, const void* from, size_t length) const override {
        return copy(from, [&](CuStream stream) {
            return driver_.copy_out(to_host, reinterpret_cast<CuDevicePointer>(from), length, stream);
        });
    }

    // Where the bytes lie, or, without the kernel, through host memory, piece by piece.
    Result<uint32_t> crc32c(uint32_t seed, const void* from, size_t length) const override {
        Result<uint32_t> sum = Status::invalid("no sum");
        Status status = with_context(from, [&](CuContext context) {
            CuStream stream = nullptr;
            CuResult result = copy_stream(context, stream);
            if (result == 0)
                sum = checksum_.extend(seed, context, stream, reinterpret_cast<CuDevicePointer>(from), length);
            return result;
        });
        if (!status.ok()) return status;
        if (sum.ok() || sum.status().errno_value() != ENOTSUP) return sum;
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
        if (!has(address, device_dmabuf))
            return Status(Code::invalid, ENOTSUP,
                          "the CUDA driver exports no dma-bufs here (it takes the open kernel modules and Linux 5.12)");
        order_copies(address);
        auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
        uintptr_t at = reinterpret_cast<uintptr_t>(address), start = at / page * page;
        uintptr_t end = (at + length + page - 1) / page * page;
        int fd = -1;
        FABRIC_RETURN_IF_ERROR(with_context(
            address, [&](CuContext) { return driver_.range_handle(&fd, start, end - start, handle_type_dmabuf, 0); }));
        return DmaBuf{UniqueFd(fd), at - start};
    }
    size_t aperture(int device) const override {
        std::lock_guard lock(mutex_);
        auto [found, fresh] = apertures_.try_emplace(device, 0);
        if (fresh) {
            std::optional<Device> described = this->device(static_cast<unsigned>(device));
            found->second = described && described->aperture != 0 ? described->aperture : SIZE_MAX;
        }
        return found->second;
    }

    Status peer_memory(const void* address) const override {
        if (!has(address, device_rdma)) return {Code::invalid, ENOTSUP, "the GPU has no GPUDirect RDMA"};
        if (!peer_memory_module("/sys"))
            return {Code::invalid, ENOTSUP, "the kernel module nvidia_peermem is not loaded"};
        order_copies(address);
        return {};
    }

    // CUDA Driver API, cuFlushGPUDirectRDMAWrites: needed where the device does not order a card's writes before work
    // that begins later.
    Status settle_remote_writes(const void* address, size_t /*length*/) const override {
        int device = 0;
        if (driver_.flush_remote_writes == nullptr ||
            driver_.pointer_attribute(&device, attribute_device, reinterpret_cast<CuDevicePointer>(address)) != 0 ||
            attribute_of(device, device_writes_ordering) >= ordered_for_owner ||
            (attribute_of(device, device_flush_options) & flush_by_host) == 0)
            return {};
        return with_context(
            address, [&](CuContext) { return driver_.flush_remote_writes(flush_current_context, flush_to_owner); });
    }

    // Copies from pageable memory would be staged once more by the driver, and not run beside the processor.
    Status pin(void* host, size_t length, const void* near) const override {
        if (driver_.register_host == nullptr || driver_.unregister_host == nullptr)
            return {Code::invalid, ENOTSUP, "the CUDA driver cannot pin memory"};
        return with_context(near, [&](CuContext) { return driver_.register_host(host, length, host_portable); });
    }
    void unpin(void* host) const override { (void)driver_.unregister_host(host); }

    std::optional<Device> device(unsigned index) const override {
        Device found;
        int number = 0;
        if (driver_.device == nullptr || driver_.device(&number, static_cast<int>(index)) != 0) return std::nullopt;
        if (driver_.uuid != nullptr) (void)driver_.uuid(found.uuid.data(), number);
        char bus[32] = "";
        if (driver_.pci_bus != nullptr && driver_.pci_bus(bus, sizeof bus, number) == 0)
            found.aperture = bar_of_device(bus);
        return found;
    }

    Result<std::unique_ptr<WorkStream>> open_stream(void* native) const override {
        return CudaStream::open(driver_, static_cast<CuStream>(native));
    }

  private:
    // 0: no, or the driver does not tell.
    int attribute_of(int device, int attribute) const {
        int value = 0, number = 0;
        if (driver_.device_attribute == nullptr || driver_.device == nullptr || driver_.device(&number, device) != 0 ||
            driver_.device_attribute(&value, attribute, number) != 0)
            return 0;
        return value;
    }
    bool has(const void* address, int attribute) const {
        int device = 0;
        return driver_.pointer_attribute(&device, attribute_device, reinterpret_cast<CuDevicePointer>(address)) == 0 &&
               attribute_of(device, attribute) != 0;
    }
    // CUDA's own copies of memory that a card uses too are to be over when they say so
    // (CU_POINTER_ATTRIBUTE_SYNC_MEMOPS).
    void order_copies(const void* address) const {
        const int yes = 1;
        if (driver_.set_pointer_attribute != nullptr)
            (void)driver_.set_pointer_attribute(&yes, attribute_sync_memops,
                                                reinterpret_cast<CuDevicePointer>(address));
    }
    // Runs the call with the context of the memory's own device, and leaves the caller's current one as it was.
    template <typename F>
    Status with_context(const void* address, F&& call) const {
        CuContext context = nullptr;
        auto at = reinterpret_cast<CuDevicePointer>(address);
        CuResult result = driver_.pointer_attribute(&context, attribute_context, at);
        if (result == 0 && context == nullptr) {  // from a memory pool: it belongs to the device
            int device = 0;
            result = driver_.pointer_attribute(&device, attribute_device, at);
            if (result == 0) result = driver_.primary_context(&context, device);
        }
        if (result != 0) return driver_.failed(result);
        CurrentContext current(driver_, context);
        result = current.result() != 0 ? current.result() : call(context);
        return result == 0 ? Status() : driver_.failed(result);
    }
    // In a stream of our own that waits for no other: a copy in the default stream would wait for all streams of the
    // program, and one of them may be waiting for this copy (CudaStream).
    template <typename F>
    Status copy(const void* address, F&& call) const {
        return with_context(address, [&](CuContext context) {
            CuStream stream = nullptr;
            CuResult result = copy_stream(context, stream);
            if (result == 0) result = call(stream);
            return result == 0 ? driver_.synchronize_stream(stream) : result;
        });
    }
    // The context is current. Of the highest priority: work of that has connections to the device of its own, so a
    // stream that waits does not hold it up.
    CuResult copy_stream(CuContext context, CuStream& stream) const {
        std::lock_guard lock(mutex_);
        CuStream& made = copy_streams_[context];
        int least = 0, greatest = 0;
        CuResult result = made != nullptr ? 0 : driver_.stream_priorities(&least, &greatest);
        if (result == 0 && made == nullptr) result = driver_.create_stream(&made, stream_non_blocking, greatest);
        stream = made;
        return result;
    }

    const CudaDriver& driver_;
    mutable std::mutex mutex_;
    mutable std::map<CuContext, CuStream> copy_streams_;
    mutable std::map<int, size_t> apertures_;
    mutable CudaChecksum checksum_;
};

}  // namespace

uint64_t bar_size(const std::string& resources, unsigned index) {
    std::istringstream lines(resources);
    std::string line;
    for (unsigned i = 0; std::getline(lines, line); ++i) {
        uint64_t first = 0, last = 0;
        if (i == index && std::sscanf(line.c_str(), "%" SCNx64 " %" SCNx64, &first, &last) == 2 && last > first)
            return last - first + 1;
    }
    return 0;
}

bool peer_memory_module(const std::string& sysfs) {
    for (const char* name : {"/module/nvidia_peermem", "/module/nv_peer_mem", "/kernel/mm/memory_peers/nv_mem"})
        if (access((sysfs + name).c_str(), F_OK) == 0) return true;
    return false;
}

const Kind* cuda() {
    // Never destroyed, as the driver is never unloaded.
    static const Kind* kind = cuda_driver() == nullptr ? nullptr : new Cuda(*cuda_driver());
    return kind;
}

}  // namespace fabric::xds::memory
