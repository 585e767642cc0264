#include "xds/memory/dmabuf.h"

#include <fcntl.h>
#include <linux/dma-buf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <memory>
#include <shared_mutex>

#include "common/crc32c.h"

namespace fabric::xds::memory {
namespace {

struct Block {
    Block() = default;
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    ~Block() {
        if (view != MAP_FAILED) munmap(view, mapped);
        if (alias != MAP_FAILED) munmap(alias, mapped);
    }
    char* start() const { return static_cast<char*>(view) + skip; }

    UniqueFd fd;
    uint64_t offset = 0;       // of the first byte in the dma-buf
    size_t size = 0;           // bytes
    size_t skip = 0;           // of the offset in its page: the kernel wants addresses to have the same
    size_t mapped = 0;         // whole pages
    void* view = MAP_FAILED;   // without rights
    void* alias = MAP_FAILED;  // with rights, where it can be mapped
    uint64_t id = 0;
};

class Exported : public Kind {
  public:
    std::string_view name() const override { return "dmabuf"; }
    bool host_accessible() const override { return false; }

    std::optional<Allocation> identify(const void* address) const override {
        std::shared_lock lock(mutex_);
        const Block* block = find(address, 0);
        if (block == nullptr) return std::nullopt;
        return Allocation{block->id, -1, reinterpret_cast<uintptr_t>(block->start()), block->size};
    }
    Status copy_in(void* to, const void* from_host, size_t length) const override {
        return access(to, length, DMA_BUF_SYNC_WRITE, [&](char* alias) { std::memcpy(alias, from_host, length); });
    }
    Status copy_out(void* to_host, const void* from, size_t length) const override {
        return access(from, length, DMA_BUF_SYNC_READ, [&](char* alias) { std::memcpy(to_host, alias, length); });
    }
    Result<uint32_t> crc32c(uint32_t seed, const void* from, size_t length) const override {
        uint32_t sum = 0;
        FABRIC_RETURN_IF_ERROR(
            access(from, length, DMA_BUF_SYNC_READ, [&](char* alias) { sum = crc32c_extend(seed, alias, length); }));
        return sum;
    }
    Result<DmaBuf> export_dmabuf(const void* address, size_t length) const override {
        std::shared_lock lock(mutex_);
        const Block* block = find(address, length);
        if (block == nullptr) return outside();
        UniqueFd copy(fcntl(block->fd.get(), F_DUPFD_CLOEXEC, 0));
        if (!copy) return Status::from_errno(errno, "dup of a dma-buf");
        return DmaBuf{std::move(copy), block->offset + into(*block, address)};
    }
    size_t aperture(int /*device*/) const override { return SIZE_MAX; }
    std::optional<Device> device(unsigned /*index*/) const override { return std::nullopt; }
    Result<std::unique_ptr<WorkStream>> open_stream(void* native) const override { return ThreadStream::open(native); }

    Result<void*> add(int fd, uint64_t offset, size_t length) {
        auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
        if (length == 0 || length > SIZE_MAX / 2 || offset > INT64_MAX - length)
            return Status::invalid("dma-buf: an impossible offset or length");
        auto block = std::make_unique<Block>();
        block->offset = offset;
        block->size = length;
        block->skip = offset % page;
        block->mapped = (block->skip + length + page - 1) / page * page;
        block->fd = UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0));
        if (!block->fd) return Status::from_errno(errno, "dup of a dma-buf");
        // A dma-buf tells its size this way (Linux, dma-buf.rst).
        off_t end = lseek(block->fd.get(), 0, SEEK_END);
        (void)lseek(block->fd.get(), 0, SEEK_SET);
        if (end < 0) return Status::invalid("dma-buf: the descriptor is none");
        if (offset + length > static_cast<uint64_t>(end))
            return Status(Code::invalid, EFAULT, "dma-buf: it has only " + std::to_string(end) + " bytes");
        block->view = mmap(nullptr, block->mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (block->view == MAP_FAILED) return Status::from_errno(errno, "addresses for a dma-buf");
        block->alias = mmap(nullptr, block->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, block->fd.get(),
                            static_cast<off_t>(offset - block->skip));
        std::unique_lock lock(mutex_);
        block->id = ++last_id_;
        void* start = block->start();
        blocks_[reinterpret_cast<uintptr_t>(start)] = std::move(block);
        return start;
    }
    Status remove(void* address) {
        std::unique_lock lock(mutex_);
        if (blocks_.erase(reinterpret_cast<uintptr_t>(address)) == 0)
            return Status::invalid("not the first address of a dma-buf");
        return {};
    }

  private:
    static size_t into(const Block& block, const void* address) {
        return reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(block.start());
    }
    const Block* find(const void* address, size_t length) const {
        auto next = blocks_.upper_bound(reinterpret_cast<uintptr_t>(address));
        if (next == blocks_.begin()) return nullptr;
        const Block* block = std::prev(next)->second.get();
        size_t at = into(*block, address);
        return at < block->size && length <= block->size - at ? block : nullptr;
    }
    static Status outside() {
        return {Code::invalid, EFAULT, "dmabuf: the range is not within one that is registered"};
    }

    template <typename F>
    Status access(const void* address, size_t length, uint64_t how, F&& use) const {
        std::shared_lock lock(mutex_);
        const Block* block = find(address, length);
        if (block == nullptr) return outside();
        if (block->alias == MAP_FAILED)
            return {Code::invalid, ENOTSUP, "dmabuf: its exporter does not let it be mapped, so only RDMA reaches it"};
        // What is no dma-buf of the kernel's (a memory file) has nothing to synchronise.
        dma_buf_sync sync{DMA_BUF_SYNC_START | how};
        (void)ioctl(block->fd.get(), DMA_BUF_IOCTL_SYNC, &sync);
        use(static_cast<char*>(block->alias) + block->skip + into(*block, address));
        sync.flags = DMA_BUF_SYNC_END | how;
        (void)ioctl(block->fd.get(), DMA_BUF_IOCTL_SYNC, &sync);
        return {};
    }

    mutable std::shared_mutex mutex_;
    std::map<uintptr_t, std::unique_ptr<Block>> blocks_;  // by first address
    uint64_t last_id_ = 0;
};

// Never destroyed: a thread may still copy while the process exits.
Exported& instance() {
    static auto* kind = new Exported;
    return *kind;
}

}  // namespace

const Kind& dmabuf() { return instance(); }
Result<void*> dmabuf_add(int fd, uint64_t offset, size_t length) { return instance().add(fd, offset, length); }
Status dmabuf_remove(void* address) { return instance().remove(address); }

}  // namespace fabric::xds::memory
