// A CUDA driver for tests where there is no GPU: two devices whose memory the processor cannot touch, streams that are
// threads, and CUDA's own rules where breaking them would go unseen until a real GPU hangs: a host function must not
// call the driver, the default stream waits for all others but non-blocking ones, a copy needs its device's context.
#include "tests/xds/cuda/fake_driver.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "xds/memory/crc32c_pieces.h"
#include "xds/memory/sim.h"
#include "xds/memory/work_stream.h"

using fabric::xds::memory::ThreadStream;
namespace memory = fabric::xds::memory;

struct FakeContextTag {
    int device;
};
struct FakeStreamTag {
    FakeContext context;
    bool blocking;
    std::unique_ptr<ThreadStream> thread = std::move(*ThreadStream::start());
};

namespace {

constexpr int success = 0, invalid_value = 1, invalid_context = 201, invalid_handle = 400, not_permitted = 800,
              not_supported = 801;

FakeContextTag devices[2] = {{0}, {1}};
thread_local std::vector<FakeContext> current;
thread_local bool in_host_function = false;
std::atomic<unsigned> kernels{0};
std::atomic<bool> no_wait_value{false}, capturing{false}, no_dmabuf{false}, no_rdma{false}, export_fails{false};
std::atomic<unsigned> pinned_copies{0}, pageable_copies{0}, flushes{0}, ordered{0};

// Host memory that is pinned, by its start.
std::mutex pinned_mutex;
std::map<uintptr_t, size_t> pinned;

void count_copy(const void* host, size_t length) {
    auto at = reinterpret_cast<uintptr_t>(host);
    std::lock_guard lock(pinned_mutex);
    auto next = pinned.upper_bound(at);
    bool inside = next != pinned.begin() && at + length <= std::prev(next)->first + std::prev(next)->second;
    ++(inside ? pinned_copies : pageable_copies);
}

struct Streams {
    std::mutex mutex;
    std::set<FakeStream> all;
    FakeStreamTag defaults[2] = {{&devices[0], true}, {&devices[1], true}};
};
Streams& streams() {
    static auto* instance = new Streams;
    return *instance;
}

struct Work : memory::StreamWork {
    explicit Work(std::function<void()> what) : what_(std::move(what)) {}
    void run() override {
        what_();
        delete this;
    }
    std::function<void()> what_;
};

FakeContext here() { return current.empty() ? nullptr : current.back(); }

// Null: the default stream of the current context, which first waits for all blocking streams.
int enqueue(FakeStream stream, std::function<void()> what) {
    if (in_host_function) return not_permitted;
    if (stream != nullptr) return stream->thread->enqueue(*new Work(std::move(what))).ok() ? success : invalid_handle;
    if (here() == nullptr) return invalid_context;
    std::vector<FakeStream> others;
    {
        std::lock_guard lock(streams().mutex);
        for (FakeStream other : streams().all)
            if (other->blocking && other->context == here()) others.push_back(other);
    }
    auto after_others = [others, what = std::move(what)] {
        for (FakeStream other : others) (void)other->thread->synchronize();
        what();
    };
    return streams().defaults[here()->device].thread->enqueue(*new Work(after_others)).ok() ? success : invalid_handle;
}

int copy(unsigned long long device_address, FakeStream stream, std::function<void(void*)> move) {
    auto* at = reinterpret_cast<void*>(device_address);
    auto found = memory::sim().identify(at);
    if (!found) return invalid_value;
    if (here() == nullptr || here()->device != found->device || (stream != nullptr && stream->context != here()))
        return invalid_context;
    return enqueue(stream, [at, move = std::move(move)] { move(at); });
}

template <typename Value>
void give(void* place, Value value) {
    *static_cast<Value*>(place) = value;
}

}  // namespace

extern "C" {

void fake_cuda_no_wait_value(bool yes) { no_wait_value = yes; }
void fake_cuda_capturing(bool yes) { capturing = yes; }
void fake_cuda_refuses(const char* what, bool yes) {
    std::string_view name(what);
    if (name == "dma-buf") no_dmabuf = yes;
    if (name == "export") export_fails = yes;
    if (name == "rdma") no_rdma = yes;
}
unsigned fake_cuda_pinned_copies(void) { return pinned_copies; }
unsigned fake_cuda_pageable_copies(void) { return pageable_copies; }
unsigned fake_cuda_flushes(void) { return flushes; }
unsigned fake_cuda_ordered(void) { return ordered; }
size_t fake_cuda_pinned(void) {
    std::lock_guard lock(pinned_mutex);
    return pinned.size();
}

int cuInit(unsigned) { return success; }
int cuDeviceGetCount(int* count) {
    *count = 2;
    return success;
}
int cuGetErrorName(int error, const char** name) {
    *name = error == invalid_context ? "FAKE_INVALID_CONTEXT" : "FAKE_ERROR";
    return success;
}
int cuDevicePrimaryCtxRetain(FakeContext* context, int device) {
    if (device < 0 || device > 1) return invalid_value;
    *context = &devices[device];
    return success;
}
int cuCtxGetCurrent(FakeContext* context) {
    *context = here();
    return success;
}
int cuCtxSetCurrent(FakeContext context) {
    if (current.empty()) current.push_back(nullptr);
    current.back() = context;
    return success;
}
int cuCtxPushCurrent_v2(FakeContext context) {
    if (in_host_function) return not_permitted;
    current.push_back(context);
    return success;
}
int cuCtxPopCurrent_v2(FakeContext* context) {
    if (current.empty()) return invalid_context;
    *context = current.back();
    current.pop_back();
    return success;
}
int cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    *least = 0;
    *greatest = -5;
    return success;
}

int cuMemAlloc_v2(unsigned long long* address, size_t size) {
    if (here() == nullptr) return invalid_context;
    memory::SimSettings settings;
    settings.dmabuf = true;
    memory::sim_configure(settings);
    auto memory = memory::sim_allocate(size, here()->device);
    if (!memory.ok()) return invalid_value;
    *address = reinterpret_cast<unsigned long long>(*memory);
    return success;
}
int cuMemFree_v2(unsigned long long address) {
    return memory::sim_free(reinterpret_cast<void*>(address)).ok() ? success : invalid_value;
}
int cuMemHostAlloc(void** address, size_t size, unsigned) {
    if (here() == nullptr) return invalid_context;
    *address = std::calloc(1, size);
    return success;
}
int cuMemFreeHost(void* address) {
    std::free(address);
    return success;
}
int cuMemHostGetDevicePointer_v2(unsigned long long* device, void* host, unsigned) {
    *device = reinterpret_cast<unsigned long long>(host);
    return success;
}
int cuPointerGetAttribute(void* value, int attribute, unsigned long long address) {
    auto found = memory::sim().identify(reinterpret_cast<void*>(address));
    if (!found) return invalid_value;
    switch (attribute) {
        case 1:
            give(value, &devices[found->device]);
            return success;
        case 2:
            give(value, 2U);
            return success;
        case 7:
            give<unsigned long long>(value, found->id);
            return success;
        case 9:
            give(value, found->device);
            return success;
        case 11:
            give<unsigned long long>(value, found->base);
            return success;
        case 12:
            give<size_t>(value, found->size);
            return success;
        default:
            return invalid_value;
    }
}
int cuMemHostRegister_v2(void* host, size_t length, unsigned flags) {
    if (here() == nullptr) return invalid_context;
    std::lock_guard lock(pinned_mutex);
    return flags == 1 && pinned.emplace(reinterpret_cast<uintptr_t>(host), length).second ? success : invalid_value;
}
int cuMemHostUnregister(void* host) {
    std::lock_guard lock(pinned_mutex);
    return pinned.erase(reinterpret_cast<uintptr_t>(host)) == 1 ? success : invalid_value;
}
int cuDeviceGet(int* device, int index) {
    *device = index;
    return index < 2 ? success : invalid_value;
}
// Flushing by the host works, and is needed.
int cuDeviceGetAttribute(int* value, int attribute, int) {
    *value = attribute == 124 ? !no_dmabuf : (attribute == 116 ? !no_rdma : (attribute == 117 ? 1 : 0));
    return success;
}
int cuPointerSetAttribute(const void*, int attribute, unsigned long long) {
    if (attribute != 6) return invalid_value;
    ++ordered;
    return success;
}
int cuFlushGPUDirectRDMAWrites(int target, int scope) {
    if (here() == nullptr || target != 0 || scope != 100) return invalid_value;
    ++flushes;
    return success;
}
// Whole pages of one allocation, as CUDA has it.
int cuMemGetHandleForAddressRange(void* handle, unsigned long long address, size_t length, int type,
                                  unsigned long long flags) {
    if (no_dmabuf || export_fails || type != 1 || flags != 0) return not_supported;
    if (address % 4096 != 0 || length % 4096 != 0) return invalid_value;
    auto exported = memory::sim().export_dmabuf(reinterpret_cast<void*>(address), length);
    if (!exported.ok()) return invalid_value;
    // A dma-buf begins where the range does: a memory file of the whole allocation says so by its position.
    int own = open(("/proc/self/fd/" + std::to_string(exported->fd.get())).c_str(), O_RDWR | O_CLOEXEC);
    if (own < 0 || lseek(own, static_cast<off_t>(exported->offset), SEEK_SET) < 0) return invalid_value;
    give(handle, own);
    return success;
}
int cuMemcpyHtoDAsync_v2(unsigned long long to, const void* from, size_t length, FakeStream stream) {
    count_copy(from, length);
    return copy(to, stream, [=](void* at) { (void)memory::sim().copy_in(at, from, length); });
}
int cuMemcpyDtoHAsync_v2(void* to, unsigned long long from, size_t length, FakeStream stream) {
    count_copy(to, length);
    return copy(from, stream, [=](void* at) { (void)memory::sim().copy_out(to, at, length); });
}

int cuStreamCreateWithPriority(FakeStream* stream, unsigned flags, int) {
    if (here() == nullptr) return invalid_context;
    *stream = new FakeStreamTag{here(), (flags & 1) == 0};
    std::lock_guard lock(streams().mutex);
    streams().all.insert(*stream);
    return success;
}
int cuStreamCreate(FakeStream* stream, unsigned flags) { return cuStreamCreateWithPriority(stream, flags, 0); }
int cuStreamDestroy_v2(FakeStream stream) {
    {
        std::lock_guard lock(streams().mutex);
        if (streams().all.erase(stream) == 0) return invalid_handle;
    }
    delete stream;
    return success;
}
int cuStreamSynchronize(FakeStream stream) {
    if (in_host_function) return not_permitted;
    if (stream == nullptr && here() == nullptr) return invalid_context;
    ThreadStream& thread = stream != nullptr ? *stream->thread : *streams().defaults[here()->device].thread;
    return thread.synchronize().ok() ? success : not_permitted;
}
int cuStreamGetCtx(FakeStream stream, FakeContext* context) {
    *context = stream->context;
    return success;
}
int cuStreamIsCapturing(FakeStream, int* status) {
    *status = capturing ? 1 : 0;
    return success;
}
int cuLaunchHostFunc(FakeStream stream, void (*function)(void*), void* argument) {
    return enqueue(stream, [=] {
        in_host_function = true;
        function(argument);
        in_host_function = false;
    });
}
int cuStreamWaitValue32_v2(FakeStream stream, unsigned long long address, uint32_t value, unsigned flags) {
    if (no_wait_value || flags != 0) return not_supported;
    return enqueue(stream, [=] {
        auto* word = reinterpret_cast<std::atomic<uint32_t>*>(address);
        while (static_cast<int32_t>(word->load(std::memory_order_acquire) - value) < 0)
            std::this_thread::sleep_for(std::chrono::microseconds(50));
    });
}

// One kernel is known, by its name.
int cuModuleLoadData(void** module, const void* code) {
    if (code == nullptr || here() == nullptr) return invalid_value;
    *module = here();
    return success;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
    *function = module;
    return std::string_view(name) == "xds_crc32c" ? success : invalid_value;
}
int cuLaunchKernel(void*, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned, unsigned,
                   FakeStream stream, void** arguments, void**) {
    auto from = *static_cast<unsigned long long*>(arguments[0]),
         length = *static_cast<unsigned long long*>(arguments[1]);
    auto* sums = *static_cast<uint32_t**>(arguments[2]);
    ++kernels;
    return enqueue(stream, [=] {
        for (uint64_t piece = 0; piece < uint64_t{blocks} * threads && piece * memory::crc32c_piece < length; ++piece) {
            uint64_t at = piece * memory::crc32c_piece;
            auto sum = memory::sim().crc32c(0, reinterpret_cast<void*>(from + at),
                                            std::min<uint64_t>(memory::crc32c_piece, length - at));
            sums[piece] = sum.ok() ? *sum : 0;
        }
    });
}
unsigned fake_cuda_kernels(void) { return kernels; }
}
