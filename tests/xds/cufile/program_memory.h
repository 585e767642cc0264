// Memory of each kind for the cuFile program, and its checks: host, simulated accelerator, and a GPU by CUDA's driver.
#pragma once

#include <dlfcn.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#ifdef HAVE_NVIDIA_CUFILE
#include <cufile.h>
#else
#include "xds/cufile/abi.h"
#endif
#include "xds/client/include/xds.h"

inline int failures = 0;
inline void check(bool good, const char* what, const char* file, int line) {
    if (good) return;
    std::fprintf(stderr, "%s:%d: %s (%s)\n", file, line, what, std::strerror(errno));
    ++failures;
}
#define CHECK(condition) check(condition, #condition, __FILE__, __LINE__)

// What of the CUDA driver the program uses itself, on device 0.
struct Gpu {
    using Address = unsigned long long;
    template <typename F>
    static F* load(const char* name) {
        static void* driver = dlopen("libcuda.so.1", RTLD_NOW);
        return driver == nullptr ? nullptr : reinterpret_cast<F*>(dlsym(driver, name));
    }
    bool start() const {
        auto* init = load<int(unsigned)>("cuInit");
        auto* retain = load<int(void**, int)>("cuDevicePrimaryCtxRetain");
        auto* set = load<int(void*)>("cuCtxSetCurrent");
        void* context = nullptr;
        return init != nullptr && init(0) == 0 && retain(&context, 0) == 0 && set(context) == 0;
    }
    int (*allocate)(Address*, size_t) = load<int(Address*, size_t)>("cuMemAlloc_v2");
    int (*free)(Address) = load<int(Address)>("cuMemFree_v2");
    int (*in)(Address, const void*, size_t,
              CUstream) = load<int(Address, const void*, size_t, CUstream)>("cuMemcpyHtoDAsync_v2");
    int (*out)(void*, Address, size_t, CUstream) = load<int(void*, Address, size_t, CUstream)>("cuMemcpyDtoHAsync_v2");
    int (*synchronize)(CUstream) = load<int(CUstream)>("cuStreamSynchronize");
    int (*create)(CUstream*, unsigned) = load<int(CUstream*, unsigned)>("cuStreamCreate");
};
inline const Gpu& gpu() {
    static const Gpu instance;
    return instance;
}

enum class Kind { host, sim, cuda };

class Memory {
  public:
    Memory(Kind kind, size_t size) : kind_(kind), size_(size) {
        if (kind == Kind::sim) {
            data_ = xds_sim_alloc(size, 0);
        } else if (kind == Kind::host) {
            data_ = std::aligned_alloc(4096, size);
        } else {
            Gpu::Address address = 0;
            CHECK(gpu().allocate(&address, size) == 0);
            data_ = reinterpret_cast<void*>(address);
        }
        write(std::string(size, '#'));
    }
    ~Memory() {
        if (kind_ == Kind::sim)
            xds_sim_free(data_);
        else if (kind_ == Kind::host)
            std::free(data_);
        else
            gpu().free(address());
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    char* data() const { return static_cast<char*>(data_); }
    std::string read() const {
        std::string bytes(size_, '\0');
        if (kind_ == Kind::sim)
            CHECK(xds_sim_copy_out(bytes.data(), data_, size_) == 0);
        else if (kind_ == Kind::host)
            std::memcpy(bytes.data(), data_, size_);
        else
            CHECK(gpu().out(bytes.data(), address(), size_, nullptr) == 0 && gpu().synchronize(nullptr) == 0);
        return bytes;
    }
    void write(const std::string& bytes) const {
        if (kind_ == Kind::sim)
            CHECK(xds_sim_copy_in(data_, bytes.data(), bytes.size()) == 0);
        else if (kind_ == Kind::host)
            std::memcpy(data_, bytes.data(), bytes.size());
        else
            CHECK(gpu().in(address(), bytes.data(), bytes.size(), nullptr) == 0 && gpu().synchronize(nullptr) == 0);
    }

  private:
    Gpu::Address address() const { return reinterpret_cast<Gpu::Address>(data_); }
    Kind kind_;
    size_t size_;
    void* data_ = nullptr;
};
