#include "xds/transport/verbs/verbs_domain.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "common/io/buffer_pool.h"

namespace fabric::xds::transport {
namespace {

constexpr unsigned most_parts = 8;
constexpr unsigned most_reads = 16;

// Soft-RoCE hands the kernel's flag for an invalidated key (ib_verbs.h, IB_WC_WITH_INVALIDATE, 1 << 2) to programs,
// whose header has another one at that place: seen with Linux 6.1. Not to see it would mean to invalidate the key
// again, which ends the connection, or with soft-RoCE the machine. On reliable connections the other flag has no
// meaning.
constexpr uint32_t soft_roce_vendor = 0xffffff;
constexpr unsigned soft_roce_invalidated = IBV_WC_IP_CSUM_OK;
static_assert(soft_roce_invalidated == 1 << 2);

// A device may announce windows and then not make them.
bool has_windows(ibv_pd* pd, const ibv_device_attr& attributes) {
    constexpr unsigned type_2 = IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
    if ((attributes.device_cap_flags & type_2) == 0) return false;
    ibv_mw* window = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
    if (window == nullptr) return false;
    ibv_dealloc_mw(window);
    return true;
}

}  // namespace

Status rdma_present() {
    std::error_code none;
    std::filesystem::directory_iterator devices("/sys/class/infiniband", none);
    if (none || devices == std::filesystem::directory_iterator())
        return {Code::unavailable, ENODEV, "this machine has no RDMA device"};
    if (::access("/dev/infiniband/rdma_cm", R_OK | W_OK) != 0)
        return {Code::unavailable, errno,
                "/dev/infiniband/rdma_cm cannot be opened: load the kernel module rdma_ucm, or ask for the right to "
                "use it"};
    return {};
}

Result<std::shared_ptr<VerbsDomain>> VerbsDomain::open(ibv_context* device) {
    std::shared_ptr<VerbsDomain> domain(new VerbsDomain(device));
    FABRIC_RETURN_IF_ERROR(domain->set_up());
    return domain;
}

Status VerbsDomain::set_up() {
    const char* name = ibv_get_device_name(device_->device);
    ibv_device_attr attributes{};
    if (int error = ibv_query_device(device_, &attributes))
        return Status::from_errno(error, std::string("query of RDMA device ") + name);
    if (attributes.max_srq == 0)
        return {Code::unavailable, ENOTSUP, std::string("RDMA device ") + name + " has no shared receive queues"};
    pd_ = ibv_alloc_pd(device_);
    if (pd_ == nullptr) return Status::from_errno(errno, std::string("protection domain of RDMA device ") + name);
    limits_.parts = std::clamp(static_cast<unsigned>(attributes.max_sge), 1U, most_parts);
    limits_.read_depth = std::min(static_cast<unsigned>(attributes.max_qp_rd_atom), most_reads);
    limits_.read_issue = std::min(static_cast<unsigned>(attributes.max_qp_init_rd_atom), most_reads);
    limits_.invalidates = (attributes.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS) != 0;
    if (attributes.vendor_id == soft_roce_vendor) limits_.invalidated_flags |= soft_roce_invalidated;
    limits_.windows = has_windows(pd_, attributes);
    device_memory_ = std::make_unique<DeviceMemory>(pd_, name);
    return {};
}

VerbsDomain::~VerbsDomain() {
    registrations_.clear();
    for (auto& [block, region] : blocks_) ibv_dereg_mr(region);
    if (pd_ != nullptr) ibv_dealloc_pd(pd_);
}

Result<ibv_mr*> VerbsDomain::add_region(const void* address, size_t length, int rights) const {
    // Memory that is mapped for reading can be registered without LOCAL_WRITE alone, hence the cast.
    ibv_mr* region = ibv_reg_mr(pd_, const_cast<void*>(address), length, rights);
    if (region != nullptr) return region;
    int error = errno;
    std::string what =
        "registration of " + std::to_string(length) + " bytes with RDMA device " + ibv_get_device_name(device_->device);
    if (error == ENOMEM) what += " (is the limit on locked memory too low? see ulimit -l)";
    return Status::from_errno(error, what);
}

Result<uint64_t> VerbsDomain::add(const memory::Place& place, uintptr_t address, size_t length, memory::Access access,
                                  memory::Term term) {
    bool writes = access == memory::Access::write, kept = term == memory::Term::kept;
    int rights = (writes ? IBV_ACCESS_LOCAL_WRITE : 0) |
                 (kept ? IBV_ACCESS_MW_BIND : (writes ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ));
    Result<ibv_mr*> region = place.kind->host_accessible()
                                 ? add_region(reinterpret_cast<const void*>(address), length, rights)
                                 : device_memory_->add(place, address, length, rights);
    if (!region.ok()) return region.status();
    return reinterpret_cast<uint64_t>(*region);
}

void VerbsDomain::remove(uint64_t registration) { ibv_dereg_mr(region(registration)); }

Result<uint64_t> VerbsDomain::lend(const void* address, size_t length, memory::Access access) {
    int rights =
        access == memory::Access::write ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ;
    Result<ibv_mr*> region = add_region(address, length, rights);
    if (!region.ok()) return region.status();
    return reinterpret_cast<uint64_t>(*region);
}

Result<uint32_t> VerbsDomain::local_key(const void* address) {
    const void* block = io::BufferPool::block_of(address);
    {
        std::shared_lock lock(mutex_);
        if (auto found = blocks_.find(block); found != blocks_.end()) return found->second->lkey;
    }
    std::unique_lock lock(mutex_);
    if (auto found = blocks_.find(block); found != blocks_.end()) return found->second->lkey;
    Result<ibv_mr*> region = add_region(block, io::BufferPool::block_size, IBV_ACCESS_LOCAL_WRITE);
    if (!region.ok()) return region.status();
    blocks_.emplace(block, *region);
    return (*region)->lkey;
}

void VerbsDomain::forget_block(const void* block) {
    std::unique_lock lock(mutex_);
    auto found = blocks_.find(block);
    if (found == blocks_.end()) return;
    ibv_dereg_mr(found->second);
    blocks_.erase(found);
}

Result<std::shared_ptr<VerbsDomain>> VerbsDomains::of(ibv_context* device) {
    std::lock_guard lock(mutex_);
    for (const auto& domain : all_)
        if (domain->device() == device) return domain;
    Result<std::shared_ptr<VerbsDomain>> fresh = VerbsDomain::open(device);
    if (fresh.ok()) all_.push_back(*fresh);
    return fresh;
}

void VerbsDomains::forget_block(const void* block) {
    std::lock_guard lock(mutex_);
    for (const auto& domain : all_) domain->forget_block(block);
}

DeviceMemory::Verdict VerbsDomains::way(const memory::Place& place) {
    std::lock_guard lock(mutex_);
    if (all_.empty()) return {};
    return all_.front()->device_memory().way(place);
}

void VerbsDomains::clear() {
    std::lock_guard lock(mutex_);
    all_.clear();
}

void VerbsDomains::forget(const memory::Kind& kind, uint64_t allocation) {
    std::lock_guard lock(mutex_);
    for (const auto& domain : all_) domain->registrations().drop(kind, allocation);
}

}  // namespace fabric::xds::transport
