// A kind of memory that XDS moves data into and out of: host, cuda, sim. A ROCm or Ascend kind would be one more class.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "common/unique_fd.h"
#include "xds/memory/work_stream.h"

namespace fabric::xds::memory {

// The allocation that an address belongs to.
struct Allocation {
    // Never used again for another allocation of the same kind, so it tells memory that was freed and allocated anew
    // at the same address. 0: the kind cannot tell (host), and nothing about the address may be cached.
    uint64_t id = 0;
    int device = -1;  // -1: none
    uintptr_t base = 0;
    size_t size = 0;  // bytes; 0: unknown (host)

    bool contains(const void* address, size_t length) const {
        auto at = reinterpret_cast<uintptr_t>(address);
        return size == 0 || (at >= base && at - base <= size && length <= size - (at - base));
    }
};

struct DmaBuf {
    UniqueFd fd;
    uint64_t offset = 0;  // of the asked address in it, bytes
};

// A device of a kind.
struct Device {
    std::array<unsigned char, 16> uuid{};
    uint64_t aperture = 0;  // bytes that other devices can reach at once; 0: unknown
};

// All functions may be called from any thread, for any device, whatever device is current in the calling thread.
class Kind {
  public:
    virtual ~Kind() = default;

    virtual std::string_view name() const = 0;
    // Empty: the address is not of this kind.
    virtual std::optional<Allocation> identify(const void* address) const = 0;
    // True when the processor and the kernel may use such memory as it is. Otherwise only the functions below touch it.
    virtual bool host_accessible() const = 0;

    // Blocking copies between host memory and this kind's. The range must lie in one allocation (else EFAULT).
    virtual Status copy_in(void* to, const void* from_host, size_t length) const = 0;
    virtual Status copy_out(void* to_host, const void* from, size_t length) const = 0;
    // CRC32C of memory of this kind, extending `seed`, where it lies if the kind can.
    virtual Result<uint32_t> crc32c(uint32_t seed, const void* from, size_t length) const = 0;

    // For registration with a network card. ENOTSUP where the kind or the machine cannot.
    virtual Result<DmaBuf> export_dmabuf(const void* address, size_t length) const = 0;
    // Ok: the kernel lets a card register such memory by its address, as if it were the host's ("peer memory"). Else
    // why not.
    virtual Status peer_memory(const void* address) const;
    // After a card has written there, before the writer's owner is told: work of the device that begins afterwards sees
    // what was written.
    virtual Status settle_remote_writes(const void* address, size_t length) const;
    // Host memory that copies to and from memory near `near` go through: what makes them fast, and lets them run beside
    // the processor. unpin() before the memory goes.
    virtual Status pin(void* host, size_t length, const void* near) const;
    virtual void unpin(void* host) const;
    // Bytes of one device that a card can reach at once; larger buffers are registered in windows. SIZE_MAX: unknown.
    virtual size_t aperture(int device) const = 0;

    // Empty: no such device.
    virtual std::optional<Device> device(unsigned index) const = 0;

    // A stream in whose order work on such memory is done. `native`: one of the device's own that the caller made and
    // keeps (cuda: a CUstream, null for the default stream of the context that is current at each call); EINVAL where
    // the kind has none of its own, and it is not null.
    virtual Result<std::unique_ptr<WorkStream>> open_stream(void* native) const = 0;
};

// The kinds present in this process, host last: the first that knows an address has it. Static objects.
const std::vector<const Kind*>& kinds();
// Null: no such kind in this process.
const Kind* kind_named(std::string_view name);

// An address with its kind and its allocation.
struct Place {
    const Kind* kind = nullptr;
    Allocation allocation;
};
// EFAULT when [address, address + length) is not within one allocation, or is null.
Result<Place> locate(const void* address, size_t length);

}  // namespace fabric::xds::memory
