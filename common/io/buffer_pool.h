// Page-aligned buffers that are lent, given back and lent again.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "common/io/budget.h"

namespace fabric::io {

struct Slab;

// Thread safe. Buffers of 4 KiB to 1 MiB come from 2 MiB slabs (aligned and advised for huge pages), larger ones are
// mapped one by one. A buffer that was just given back is lent first, while the caches still hold it. Slabs that were
// not used for a while go back to the kernel, so an idle pool costs nothing.
class BufferPool {
  public:
    struct Options {
        // Bytes lent at once (rounded up to the buffers' sizes). Past it, take() waits and try_take() fails.
        size_t limit = size_t{1} << 30;
        // How long an unused slab is kept.
        unsigned idle_seconds = 5;
        // Called before a block's memory is unmapped: whoever has registered it with a device lets go of it. Any
        // thread; a block is not unmapped while one of its buffers is lent.
        std::function<void(const void* block)> before_unmap = {};
        // The NUMA node whose memory it is, while that has some; below 0: of whoever touches it first.
        int numa_node = -1;
        // Blocks come from the pages that the administrator has reserved (vm.nr_hugepages) while there are some; else,
        // and always without this, the kernel is asked to use huge pages where it finds them.
        bool reserved_huge_pages = false;
    };

    class Buffer {
      public:
        char* data() const { return data_; }
        size_t capacity() const { return capacity_; }

        // The borrower's own, to find its account again when the buffer is given back elsewhere.
        void* account = nullptr;
        size_t charged = 0;

      private:
        friend class BufferPool;
        char* data_ = nullptr;
        size_t capacity_ = 0;
        Slab* slab_ = nullptr;
        BufferPool* pool_ = nullptr;
        Buffer* next_ = nullptr;
    };

    // One who may have to wait for a buffer; embedded in the caller's object.
    struct Ticket {
        size_t bytes = 0;
        // Called once by a thread that gave memory back, with `buffer` set (null: the kernel has no memory). It must
        // hand the work on, not finish it in place.
        void (*granted)(Ticket&) = nullptr;
        Buffer* buffer = nullptr;

        BufferPool* pool = nullptr;  // the pool's own, as is the waiter
        Budget::Waiter waiter;
    };

    explicit BufferPool(const Options& options);
    // Every buffer must have been given back.
    ~BufferPool();
    BufferPool(const BufferPool&) = delete;
    BufferPool& operator=(const BufferPool&) = delete;

    // A buffer of at least `bytes`, or null at the limit (or when the kernel has no memory).
    Buffer* try_take(size_t bytes);
    // True: ticket.buffer is set. False: granted() will follow.
    bool take(Ticket& ticket);
    // Any thread.
    static void give_back(Buffer* buffer);

    // Buffers up to 1 MiB are cut from blocks of this size and alignment, in bytes.
    static constexpr size_t block_size = 2 << 20;
    static const void* block_of(const void* address) {
        return reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(address) & ~uintptr_t{block_size - 1});
    }

    // The size of the largest buffer that `bytes` pay for; 0 below the smallest.
    static size_t affordable(size_t bytes);

    size_t lent() const { return budget_.used(); }
    size_t limit() const { return budget_.limit(); }
    size_t waiting() const { return budget_.waiting(); }
    // Bytes mapped now, lent or not.
    size_t mapped() const { return mapped_.load(std::memory_order_relaxed); }
    // Unmaps what was not used in the last `ticks` seconds; done once a second by the pool itself.
    void trim(uint32_t ticks);

  private:
    static constexpr size_t class_count = 5;
    static constexpr std::array<size_t, class_count> class_size{4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20};
    struct alignas(64) Shard {
        std::mutex mutex;
        std::array<Buffer*, class_count> free{};
    };

    static size_t class_of(size_t bytes);
    static size_t rounded(size_t bytes);
    static void budget_granted(Budget::Waiter& waiter);
    Buffer* get(size_t bytes);
    Buffer* pop(size_t index);
    Buffer* pop_from(Shard& shard, size_t index);
    void push(Buffer* buffer);
    Buffer* map_slab(size_t index);
    char* map_block();
    Buffer* map_large(size_t bytes);
    void unmap(Slab* slab);
    Shard& own_shard();
    void keep_trimming(unsigned idle_seconds);

    const std::function<void(const void*)> before_unmap_;
    const int numa_node_;
    const bool reserved_huge_pages_;
    Budget budget_;
    std::vector<Shard> shards_;
    std::mutex slabs_mutex_;  // taken before any shard's
    std::vector<Slab*> slabs_;
    std::atomic<size_t> mapped_{0};
    std::atomic<uint32_t> now_{0};  // seconds since the start

    std::mutex stop_mutex_;
    std::condition_variable stop_condition_;
    bool stopping_ = false;
    std::thread trimmer_;
};

// Gives the buffer back at the end of its scope.
struct BufferReturn {
    void operator()(BufferPool::Buffer* buffer) const { BufferPool::give_back(buffer); }
};
using LentBuffer = std::unique_ptr<BufferPool::Buffer, BufferReturn>;

}  // namespace fabric::io
