// The C interface: kinds of memory, their devices, and the simulated accelerator.
#include "xds/client/handles.h"
#include "xds/memory/sim.h"

using namespace fabric;
using namespace fabric::xds::client;
namespace memory = fabric::xds::memory;

namespace {

// As much of `result` as the caller's structure has room for.
template <typename T>
int give(T result, T* to, const char* who) {
    if (to == nullptr || to->size < 8)
        return failed({Code::invalid, EINVAL, std::string(who) + ": no result, or its size field is not set"});
    result.size = std::min<uint32_t>(to->size, sizeof(T));
    std::memcpy(to, &result, result.size);
    return 0;
}

}  // namespace

extern "C" {

int xds_memory_of(const void* address, xds_memory* result) {
    return guarded([&] {
        Result<memory::Place> place = memory::locate(address, 0);
        if (!place.ok()) return failed(place.status());
        xds_memory found{};
        found.device = place->allocation.device;
        found.base = place->allocation.base;
        found.bytes = place->allocation.size;
        std::string_view name = place->kind->name();
        std::memcpy(found.kind, name.data(), std::min(name.size(), sizeof found.kind - 1));
        return give(found, result, "xds_memory_of");
    });
}

int xds_device_info(const char* kind, unsigned index, xds_device* result) {
    return guarded([&] {
        const memory::Kind* found = kind == nullptr ? nullptr : memory::kind_named(kind);
        std::optional<memory::Device> device = found == nullptr ? std::nullopt : found->device(index);
        if (!device) return failed(ENODEV, "no such device");
        xds_device described{};
        std::memcpy(described.uuid, device->uuid.data(), sizeof described.uuid);
        described.aperture_bytes = device->aperture;
        return give(described, result, "xds_device_info");
    });
}

void* xds_sim_alloc(size_t length, int device) {
    Result<void*> memory = memory::sim_allocate(length, device);
    if (memory.ok()) return *memory;
    failed(memory.status());
    return nullptr;
}
int xds_sim_free(void* address) {
    Status status = memory::sim_free(address);
    return status.ok() ? 0 : failed(status);
}
int xds_sim_copy_in(void* to, const void* from_host, size_t length) {
    Status status = memory::sim().copy_in(to, from_host, length);
    return status.ok() ? 0 : failed(status);
}
int xds_sim_copy_out(void* to_host, const void* from, size_t length) {
    Status status = memory::sim().copy_out(to_host, from, length);
    return status.ok() ? 0 : failed(status);
}

}  // extern "C"
