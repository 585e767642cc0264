#include "common/io/buffer_pool.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "common/io/topology.h"

namespace fabric::io {

namespace {
constexpr size_t slab_size = BufferPool::block_size;  // one huge page on x86-64 and (4 KiB pages) arm64
constexpr size_t large_unit = 1 << 20;
}  // namespace

// One mapping and the buffers cut from it.
struct Slab {
    char* memory = nullptr;
    size_t size = 0;
    bool large = false;
    std::atomic<uint32_t> lent{0};
    std::atomic<uint32_t> last_used{0};
    std::unique_ptr<BufferPool::Buffer[]> buffers;
};

BufferPool::BufferPool(const Options& options)
    : before_unmap_(options.before_unmap),
      numa_node_(options.numa_node),
      reserved_huge_pages_(options.reserved_huge_pages),
      budget_(options.limit),
      shards_(static_cast<size_t>(std::clamp(sysconf(_SC_NPROCESSORS_CONF), 1L, 32L))) {
    trimmer_ = std::thread(&BufferPool::keep_trimming, this, options.idle_seconds);
}

BufferPool::~BufferPool() {
    {
        std::lock_guard lock(stop_mutex_);
        stopping_ = true;
    }
    stop_condition_.notify_all();
    trimmer_.join();
    for (Slab* slab : slabs_) unmap(slab);
}

size_t BufferPool::class_of(size_t bytes) {
    size_t index = 0;
    while (index < class_count && class_size[index] < bytes) ++index;
    return index;
}

size_t BufferPool::rounded(size_t bytes) {
    size_t index = class_of(bytes);
    return index < class_count ? class_size[index] : (bytes + large_unit - 1) / large_unit * large_unit;
}

size_t BufferPool::affordable(size_t bytes) {
    if (bytes >= large_unit) return bytes / large_unit * large_unit;
    auto above = std::upper_bound(class_size.begin(), class_size.end(), bytes);
    return above == class_size.begin() ? 0 : *std::prev(above);
}

BufferPool::Buffer* BufferPool::try_take(size_t bytes) {
    size_t cost = rounded(bytes);
    if (!budget_.try_acquire(cost)) return nullptr;
    Buffer* buffer = get(bytes);
    if (buffer == nullptr) budget_.release(cost);
    return buffer;
}

bool BufferPool::take(Ticket& ticket) {
    ticket.pool = this;
    ticket.buffer = nullptr;
    ticket.waiter.bytes = rounded(ticket.bytes);
    ticket.waiter.granted = budget_granted;
    if (!budget_.acquire(ticket.waiter)) return false;
    ticket.buffer = get(ticket.bytes);
    if (ticket.buffer == nullptr) budget_.release(ticket.waiter.bytes);
    return true;
}

void BufferPool::budget_granted(Budget::Waiter& waiter) {
    auto& ticket = *reinterpret_cast<Ticket*>(reinterpret_cast<char*>(&waiter) - offsetof(Ticket, waiter));
    BufferPool* pool = ticket.pool;
    ticket.buffer = pool->get(ticket.bytes);
    size_t unused = ticket.buffer == nullptr ? waiter.bytes : 0;
    ticket.granted(ticket);
    if (unused != 0) pool->budget_.release(unused);
}

void BufferPool::give_back(Buffer* buffer) {
    if (buffer == nullptr) return;
    BufferPool* pool = buffer->pool_;
    size_t capacity = buffer->capacity_;
    if (buffer->slab_->large)
        pool->unmap(buffer->slab_);
    else
        pool->push(buffer);
    pool->budget_.release(capacity);
}

BufferPool::Buffer* BufferPool::get(size_t bytes) {
    size_t index = class_of(bytes);
    if (index == class_count) return map_large(rounded(bytes));
    Buffer* buffer = pop(index);
    return buffer != nullptr ? buffer : map_slab(index);
}

BufferPool::Shard& BufferPool::own_shard() {
    int cpu = sched_getcpu();
    return shards_[static_cast<size_t>(cpu < 0 ? 0 : cpu) % shards_.size()];
}

BufferPool::Buffer* BufferPool::pop_from(Shard& shard, size_t index) {
    std::lock_guard lock(shard.mutex);
    Buffer* buffer = shard.free[index];
    if (buffer == nullptr) return nullptr;
    shard.free[index] = buffer->next_;
    buffer->slab_->lent.fetch_add(1, std::memory_order_relaxed);
    return buffer;
}

BufferPool::Buffer* BufferPool::pop(size_t index) {
    Shard& own = own_shard();
    if (Buffer* buffer = pop_from(own, index)) return buffer;
    for (Shard& other : shards_) {
        if (&other == &own) continue;
        if (Buffer* buffer = pop_from(other, index)) return buffer;
    }
    return nullptr;
}

void BufferPool::push(Buffer* buffer) {
    size_t index = class_of(buffer->capacity_);
    Slab* slab = buffer->slab_;
    slab->last_used.store(now_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    Shard& shard = own_shard();
    std::lock_guard lock(shard.mutex);
    buffer->next_ = shard.free[index];
    shard.free[index] = buffer;
    slab->lent.fetch_sub(1, std::memory_order_relaxed);
}

// A block, aligned to its size, of huge pages where there are some.
char* BufferPool::map_block() {
    char* memory = nullptr;
    if (reserved_huge_pages_) {
        constexpr int pages_of_2_mib = 21 << MAP_HUGE_SHIFT;
        void* raw = mmap(nullptr, slab_size, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | pages_of_2_mib, -1, 0);
        if (raw != MAP_FAILED) memory = static_cast<char*>(raw);
    }
    if (memory == nullptr) {
        size_t span = 2 * slab_size;  // cut to an aligned half
        void* raw = mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (raw == MAP_FAILED) return nullptr;
        auto start = reinterpret_cast<uintptr_t>(raw);
        uintptr_t aligned = (start + slab_size - 1) & ~(slab_size - 1);
        if (aligned != start) munmap(raw, aligned - start);
        munmap(reinterpret_cast<void*>(aligned + slab_size), start + span - aligned - slab_size);
        memory = reinterpret_cast<char*>(aligned);
        madvise(memory, slab_size, MADV_HUGEPAGE);
    }
    if (numa_node_ >= 0) (void)prefer_node(memory, slab_size, numa_node_);
    return memory;
}

// Slabs of other sizes that lie idle are given up before the mapped bytes pass the limit on lent ones.
BufferPool::Buffer* BufferPool::map_slab(size_t index) {
    if (mapped() + slab_size > budget_.limit()) trim(0);
    char* memory = map_block();
    if (memory == nullptr) return nullptr;
    auto* slab = new Slab;
    slab->memory = memory;
    slab->size = slab_size;
    slab->last_used = now_.load(std::memory_order_relaxed);
    size_t count = slab_size / class_size[index];
    slab->buffers = std::make_unique<Buffer[]>(count);
    for (size_t i = 0; i < count; ++i) {
        Buffer& buffer = slab->buffers[i];
        buffer.data_ = memory + i * class_size[index];
        buffer.capacity_ = class_size[index];
        buffer.slab_ = slab;
        buffer.pool_ = this;
    }
    mapped_.fetch_add(slab_size);
    slab->lent = static_cast<uint32_t>(count);
    {
        std::lock_guard lock(slabs_mutex_);
        slabs_.push_back(slab);
    }
    for (size_t i = count; i > 1; --i) push(&slab->buffers[i - 1]);
    return &slab->buffers[0];
}

BufferPool::Buffer* BufferPool::map_large(size_t bytes) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    if (numa_node_ >= 0) (void)prefer_node(memory, bytes, numa_node_);
    auto* slab = new Slab;
    slab->memory = static_cast<char*>(memory);
    slab->size = bytes;
    slab->large = true;
    slab->buffers = std::make_unique<Buffer[]>(1);
    Buffer& buffer = slab->buffers[0];
    buffer.data_ = slab->memory;
    buffer.capacity_ = bytes;
    buffer.slab_ = slab;
    buffer.pool_ = this;
    mapped_.fetch_add(bytes);
    return &buffer;
}

void BufferPool::unmap(Slab* slab) {
    if (before_unmap_) before_unmap_(slab->memory);
    mapped_.fetch_sub(slab->size);
    munmap(slab->memory, slab->size);
    delete slab;
}

// With every shard locked nobody lends, so a slab without lent buffers has all of them in the free lists.
void BufferPool::trim(uint32_t ticks) {
    std::vector<Slab*> gone;
    {
        std::lock_guard slabs_lock(slabs_mutex_);
        std::vector<std::unique_lock<std::mutex>> locks;
        for (Shard& shard : shards_) locks.emplace_back(shard.mutex);
        uint32_t now = now_.load(std::memory_order_relaxed);
        auto unused = [&](const Slab* slab) { return slab->lent == 0 && now - slab->last_used >= ticks; };
        auto kept = std::partition(slabs_.begin(), slabs_.end(), [&](const Slab* slab) { return !unused(slab); });
        if (kept == slabs_.end()) return;
        gone.assign(kept, slabs_.end());
        slabs_.erase(kept, slabs_.end());
        for (Shard& shard : shards_) {
            for (Buffer*& head : shard.free) {
                for (Buffer** link = &head; *link != nullptr;) {
                    if (unused((*link)->slab_))
                        *link = (*link)->next_;
                    else
                        link = &(*link)->next_;
                }
            }
        }
    }
    for (Slab* slab : gone) unmap(slab);
}

void BufferPool::keep_trimming(unsigned idle_seconds) {
    pthread_setname_np(pthread_self(), "io_pool_trim");
    std::unique_lock lock(stop_mutex_);
    while (!stop_condition_.wait_for(lock, std::chrono::seconds(1), [this] { return stopping_; })) {
        now_.fetch_add(1, std::memory_order_relaxed);
        if (mapped() > 0) trim(idle_seconds);
    }
}

}  // namespace fabric::io
