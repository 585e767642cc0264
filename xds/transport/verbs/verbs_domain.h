// An RDMA device as one user of it (a target, a client's context) sees it: its abilities, a protection domain, and what
// is registered in that.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "xds/memory/registration_cache.h"
#include "xds/transport/verbs/device_memory.h"

namespace fabric::xds::transport {

// Ok: this machine has an RDMA device and its connection manager; else why not. Quick, and touches no library.
Status rdma_present();

// The keys of memory that this side moves data from or into. Thread safe.
class LocalKeys {
  public:
    virtual ~LocalKeys() = default;
    virtual Result<uint32_t> local_key(const void* address) = 0;
};

struct VerbsLimits {
    unsigned parts = 1;                            // scatter/gather entries of a work request
    unsigned read_depth = 0;                       // RDMA READs of the peer that a queue pair of ours answers at once
    unsigned read_issue = 0;                       // and that it has under way itself
    bool windows = false;                          // memory windows of type 2 work
    bool invalidates = false;                      // a message can invalidate a key of the peer
    unsigned invalidated_flags = IBV_WC_WITH_INV;  // of a completion: its message invalidated a key of ours
};

// Two sorts of registration live here. Memory that is lent to the peer: the registration cache, with remote rights in a
// window of one request, or, without windows, registered for one request alone, so that no rkey outlives its request.
// Memory that only this side's own work requests name: blocks of a buffer pool, without remote rights. Thread safe.
class VerbsDomain : public memory::Registrar, public LocalKeys {
  public:
    static Result<std::shared_ptr<VerbsDomain>> open(ibv_context* device);
    ~VerbsDomain() override;

    ibv_context* device() const { return device_; }
    ibv_pd* pd() const { return pd_; }
    const VerbsLimits& limits() const { return limits_; }
    memory::RegistrationCache& registrations() { return registrations_; }

    // For the cache. Kept: without remote rights of its own; windows are bound to it. The key is a registration's.
    Result<uint64_t> add(const memory::Place& place, uintptr_t address, size_t length, memory::Access access,
                         memory::Term term) override;
    void remove(uint64_t registration) override;
    // Host memory with remote rights, for one request: beside the cache, which has nothing to limit there.
    Result<uint64_t> lend(const void* address, size_t length, memory::Access access);
    // How the device reaches memory that is not the host's. After set-up.
    DeviceMemory& device_memory() { return *device_memory_; }
    static ibv_mr* region(uint64_t registration) { return reinterpret_cast<ibv_mr*>(registration); }

    // Registers the pool's block around the address when it is first used.
    Result<uint32_t> local_key(const void* address) override;
    void forget_block(const void* block);

  private:
    explicit VerbsDomain(ibv_context* device) : device_(device), registrations_(*this, SIZE_MAX) {}
    Status set_up();
    Result<ibv_mr*> add_region(const void* address, size_t length, int rights) const;

    ibv_context* device_;
    ibv_pd* pd_ = nullptr;
    std::unique_ptr<DeviceMemory> device_memory_;
    VerbsLimits limits_;
    std::shared_mutex mutex_;
    std::unordered_map<const void*, ibv_mr*> blocks_;
    memory::RegistrationCache registrations_;
};

// One domain a device. Thread safe.
class VerbsDomains {
  public:
    Result<std::shared_ptr<VerbsDomain>> of(ibv_context* device);
    // Of all devices.
    void forget_block(const void* block);
    void forget(const memory::Kind& kind, uint64_t allocation);
    // How memory that is not the host's is reached by the device that was used first; none, when there is no device.
    DeviceMemory::Verdict way(const memory::Place& place);
    // Lets go of all devices; every connection must have ended.
    void clear();

  private:
    std::mutex mutex_;
    std::vector<std::shared_ptr<VerbsDomain>> all_;
};

}  // namespace fabric::xds::transport
