#include "xds/memory/sim.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <thread>

#include "common/crc32c.h"

namespace fabric::xds::memory {
namespace {

// A memory file mapped twice: `view` without rights, `alias` with them.
struct Block {
    Block() = default;
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    ~Block() {
        if (view != MAP_FAILED) munmap(view, size);
        if (alias != MAP_FAILED) munmap(alias, size);
    }

    UniqueFd file;
    void* view = MAP_FAILED;
    void* alias = MAP_FAILED;
    size_t size = 0;  // bytes, whole pages
    uint64_t id = 0;
    int device = 0;
    SimSettings settings;
};

class Sim : public Kind {
  public:
    std::string_view name() const override { return "sim"; }
    bool host_accessible() const override { return false; }

    std::optional<Allocation> identify(const void* address) const override {
        std::shared_lock lock(mutex_);
        const Block* block = find(address);
        if (block == nullptr) return std::nullopt;
        return Allocation{block->id, block->device, reinterpret_cast<uintptr_t>(block->view), block->size};
    }

    Status copy_in(void* to, const void* from_host, size_t length) const override {
        return access(to, length, [&](char* alias) { std::memcpy(alias, from_host, length); });
    }
    Status copy_out(void* to_host, const void* from, size_t length) const override {
        return access(from, length, [&](char* alias) { std::memcpy(to_host, alias, length); });
    }
    Result<uint32_t> crc32c(uint32_t seed, const void* from, size_t length) const override {
        uint32_t sum = 0;
        // "On the device": neither a copy nor its speed.
        std::shared_lock lock(mutex_);
        const Block* block = find(from, length);
        if (block == nullptr) return outside();
        sum = crc32c_extend(seed, alias_of(*block, from), length);
        return sum;
    }

    Result<DmaBuf> export_dmabuf(const void* address, size_t length) const override {
        std::shared_lock lock(mutex_);
        const Block* block = find(address, length);
        if (block == nullptr) return outside();
        if (!block->settings.dmabuf) return Status(Code::invalid, ENOTSUP, "sim: dma-buf is switched off");
        UniqueFd copy(fcntl(block->file.get(), F_DUPFD_CLOEXEC, 0));
        if (!copy) return Status::from_errno(errno, "dup of a sim dma-buf");
        return DmaBuf{std::move(copy),
                      static_cast<uint64_t>(alias_of(*block, address) - static_cast<char*>(block->alias))};
    }

    Status peer_memory(const void* address) const override {
        std::shared_lock lock(mutex_);
        const Block* block = find(address);
        if (block == nullptr) return outside();
        return block->settings.peer_memory ? Status()
                                           : Status(Code::invalid, ENOTSUP, "sim: peer memory is switched off");
    }
    Status settle_remote_writes(const void* address, size_t length) const override {
        uint64_t speed = 0;
        {
            std::shared_lock lock(mutex_);
            const Block* block = find(address, length);
            if (block == nullptr) return outside();
            speed = block->settings.remote_bytes_per_second;
        }
        take_time(std::chrono::steady_clock::now(), length, speed);
        return {};
    }
    Status pin(void* /*host*/, size_t /*length*/, const void* /*near*/) const override {
        pinned_.fetch_add(1);
        return {};
    }
    void unpin(void* /*host*/) const override { pinned_.fetch_sub(1); }

    size_t aperture(int device) const override {
        std::shared_lock lock(mutex_);
        for (const auto& [start, block] : blocks_)
            if (block->device == device) return block->settings.aperture;
        return settings_.aperture;
    }

    // Those that have memory now; their number is their identity.
    std::optional<Device> device(unsigned index) const override {
        std::shared_lock lock(mutex_);
        for (const auto& [start, block] : blocks_)
            if (block->device == static_cast<int>(index)) {
                Device found;
                found.uuid[15] = static_cast<unsigned char>(index);
                found.aperture = block->settings.aperture;
                return found;
            }
        return std::nullopt;
    }

    Result<std::unique_ptr<WorkStream>> open_stream(void* native) const override {
        std::shared_lock lock(mutex_);
        return ThreadStream::open(native, settings_.stream_delay);
    }

    void configure(const SimSettings& settings) {
        std::unique_lock lock(mutex_);
        settings_ = settings;
    }

    Result<void*> allocate(size_t length, int device) {
        auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
        if (length == 0 || length > SIZE_MAX - page) return Status::invalid("sim_allocate: impossible length");
        auto block = std::make_unique<Block>();
        block->size = (length + page - 1) / page * page;
        block->file = UniqueFd(memfd_create("xds-sim", MFD_CLOEXEC));
        if (!block->file || ftruncate(block->file.get(), static_cast<off_t>(block->size)) != 0)
            return Status::from_errno(errno, "memory for sim");
        block->view = mmap(nullptr, block->size, PROT_NONE, MAP_SHARED, block->file.get(), 0);
        block->alias = mmap(nullptr, block->size, PROT_READ | PROT_WRITE, MAP_SHARED, block->file.get(), 0);
        if (block->view == MAP_FAILED || block->alias == MAP_FAILED) return Status::from_errno(errno, "memory for sim");
        block->device = device;
        std::unique_lock lock(mutex_);
        block->id = ++last_id_;
        block->settings = settings_;
        void* view = block->view;
        blocks_[reinterpret_cast<uintptr_t>(view)] = std::move(block);
        return view;
    }

    Status free(void* address) {
        std::unique_lock lock(mutex_);
        if (blocks_.erase(reinterpret_cast<uintptr_t>(address)) == 0)
            return Status::invalid("sim_free: not the start of a live allocation");
        return {};
    }

    uint64_t copied() const { return copied_.load(std::memory_order_relaxed); }
    unsigned pinned() const { return pinned_.load(); }
    void hold(bool yes) {
        std::lock_guard lock(hold_mutex_);
        hold_ = yes;
        go_on_.notify_all();
    }
    unsigned held() const {
        std::lock_guard lock(hold_mutex_);
        return held_;
    }

  private:
    const Block* find(const void* address, size_t length = 0) const {
        auto at = reinterpret_cast<uintptr_t>(address);
        auto next = blocks_.upper_bound(at);
        if (next == blocks_.begin()) return nullptr;
        const Block* block = std::prev(next)->second.get();
        uintptr_t into = at - reinterpret_cast<uintptr_t>(block->view);
        return into < block->size && length <= block->size - into ? block : nullptr;
    }
    static char* alias_of(const Block& block, const void* address) {
        return static_cast<char*>(block.alias) +
               (reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(block.view));
    }
    static Status outside() { return {Code::invalid, EFAULT, "sim: the range is not within one live allocation"}; }

    static void take_time(std::chrono::steady_clock::time_point start, size_t length, uint64_t speed) {
        if (speed != 0)
            std::this_thread::sleep_until(start + std::chrono::nanoseconds(static_cast<uint64_t>(
                                                      static_cast<double>(length) * 1e9 / static_cast<double>(speed))));
    }
    void wait_if_held() const {
        std::unique_lock lock(hold_mutex_);
        ++held_;
        go_on_.wait(lock, [&] { return !hold_; });
        --held_;
    }

    // The lock is held while the bytes are used: freeing waits for a copy in progress, as a device driver does.
    template <typename F>
    Status access(const void* address, size_t length, F&& use) const {
        uint64_t speed = 0;
        wait_if_held();
        auto start = std::chrono::steady_clock::now();
        {
            std::shared_lock lock(mutex_);
            const Block* block = find(address, length);
            if (block == nullptr) return outside();
            use(alias_of(*block, address));
            speed = block->settings.copy_bytes_per_second;
        }
        copied_.fetch_add(length, std::memory_order_relaxed);
        take_time(start, length, speed);
        return {};
    }

    mutable std::shared_mutex mutex_;
    std::map<uintptr_t, std::unique_ptr<Block>> blocks_;  // by start of the view
    SimSettings settings_;
    uint64_t last_id_ = 0;
    mutable std::atomic<uint64_t> copied_{0};
    mutable std::atomic<unsigned> pinned_{0};
    mutable std::mutex hold_mutex_;
    mutable std::condition_variable go_on_;
    bool hold_ = false;
    mutable unsigned held_ = 0;
};

// Never destroyed: a thread may still copy while the process exits.
Sim& instance() {
    static auto* sim_kind = new Sim;
    return *sim_kind;
}

}  // namespace

const Kind& sim() { return instance(); }
void sim_configure(const SimSettings& settings) { instance().configure(settings); }
Result<void*> sim_allocate(size_t length, int device) { return instance().allocate(length, device); }
Status sim_free(void* address) { return instance().free(address); }
uint64_t sim_copied_bytes() { return instance().copied(); }
void sim_hold_copies(bool hold) { instance().hold(hold); }
unsigned sim_held_copies() { return instance().held(); }
unsigned sim_pinned() { return instance().pinned(); }

}  // namespace fabric::xds::memory
