// cuFile's entry points but for batches and settings. Each says what came of it by cuFile's codes; no exception leaves.
#include <dlfcn.h>

#include <set>

#include "xds/cufile/library.h"

namespace fabric::xds::cufile {
namespace {

// Streams that the program announced; the announcement changes nothing here.
struct Streams {
    std::mutex mutex;
    std::set<CUstream> known;
};
Streams& streams() {
    static auto* instance = new Streams;
    return *instance;
}

// Waits until what was queued on the stream before is done. Without the CUDA driver there are no streams to wait for.
bool drain(CUstream stream) {
    using Synchronize = int (*)(CUstream);
    static const auto synchronize = [] {
        void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
        return driver == nullptr ? nullptr : reinterpret_cast<Synchronize>(dlsym(driver, "cuStreamSynchronize"));
    }();
    return synchronize == nullptr || synchronize(stream) == 0;
}

// In the stream's order: after all that was queued before, and done when the call returns, so before all that comes.
// The size and the offsets are looked at when their turn has come, as documented.
template <typename Move>
CUfileError_t in_order(CUfileHandle_t handle, const void* memory, const size_t* size, const off_t* offset,
                       const off_t* memory_offset, ssize_t* moved, CUstream stream, Move&& move) {
    return guarded([&] {
        if (memory == nullptr || size == nullptr || offset == nullptr || memory_offset == nullptr || moved == nullptr)
            return int{CU_FILE_INVALID_VALUE};
        if (Library::get().file(handle) == nullptr) return int{CU_FILE_HANDLE_NOT_REGISTERED};
        if (!drain(stream)) return int{CU_FILE_INTERNAL_ERROR};
        ssize_t result = move();
        *moved = result == -1 ? -errno : result;
        return int{CU_FILE_SUCCESS};
    });
}

}  // namespace
}  // namespace fabric::xds::cufile

using namespace fabric::xds::cufile;

extern "C" {

// ---- driver ----

CUfileError_t cuFileDriverOpen(void) {
    return guarded([] {
        Library::get().open_driver();
        return CU_FILE_SUCCESS;
    });
}

CUfileError_t cuFileDriverClose_v2(void) {
    return guarded([] { return Library::get().close_driver(); });
}
CUfileError_t cuFileDriverClose(void) { return cuFileDriverClose_v2(); }

long cuFileUseCount(void) { return Library::get().uses(); }

CUfileError_t cuFileGetVersion(int* version) {
    if (version == nullptr) return error(CU_FILE_INVALID_VALUE);
    // The version of NVIDIA's interface that this one follows, 1.14, as 1000 * major + 10 * minor.
    *version = 1140;
    return error(CU_FILE_SUCCESS);
}

// ---- files and memory ----

CUfileError_t cuFileHandleRegister(CUfileHandle_t* handle, CUfileDescr_t* description) {
    CUfileError_t result = guarded([&] {
        if (handle == nullptr || description == nullptr) return int{CU_FILE_INVALID_VALUE};
        return Library::get().add_file(*description, *handle);
    });
    Library::get().statistics().files.count(result.err == CU_FILE_SUCCESS);
    return result;
}

void cuFileHandleDeregister(CUfileHandle_t handle) {
    bool removed = false;
    (void)guarded([&] {
        removed = Library::get().remove_file(handle);
        return CU_FILE_SUCCESS;
    });
    Library::get().statistics().files_ended.count(removed);
}

CUfileError_t cuFileBufRegister(const void* memory, size_t length, int flags) {
    CUfileError_t result = guarded([&] { return Library::get().add_buffer(memory, length, flags); });
    Library::get().statistics().buffers.count(result.err == CU_FILE_SUCCESS);
    return result;
}

CUfileError_t cuFileBufDeregister(const void* memory) {
    CUfileError_t result = guarded([&] { return Library::get().remove_buffer(memory); });
    Library::get().statistics().buffers_ended.count(result.err == CU_FILE_SUCCESS);
    return result;
}

// ---- data ----

ssize_t cuFileRead(CUfileHandle_t handle, void* memory, size_t size, off_t offset, off_t memory_offset) {
    return Library::get().read(handle, memory, size, offset, memory_offset);
}

ssize_t cuFileWrite(CUfileHandle_t handle, const void* memory, size_t size, off_t offset, off_t memory_offset) {
    return Library::get().write(handle, memory, size, offset, memory_offset);
}

CUfileError_t cuFileReadAsync(CUfileHandle_t handle, void* memory, size_t* size, off_t* offset, off_t* memory_offset,
                              ssize_t* got, CUstream stream) {
    return in_order(handle, memory, size, offset, memory_offset, got, stream,
                    [&] { return Library::get().read(handle, memory, *size, *offset, *memory_offset); });
}

CUfileError_t cuFileWriteAsync(CUfileHandle_t handle, void* memory, size_t* size, off_t* offset, off_t* memory_offset,
                               ssize_t* written, CUstream stream) {
    return in_order(handle, memory, size, offset, memory_offset, written, stream,
                    [&] { return Library::get().write(handle, memory, *size, *offset, *memory_offset); });
}

CUfileError_t cuFileStreamRegister(CUstream stream, unsigned flags) {
    return guarded([&] {
        constexpr unsigned known_flags = 0xf;
        if ((flags & ~known_flags) != 0) return int{CU_FILE_INVALID_VALUE};
        std::lock_guard lock(streams().mutex);
        return streams().known.insert(stream).second ? int{CU_FILE_SUCCESS} : int{CU_FILE_INVALID_VALUE};
    });
}

CUfileError_t cuFileStreamDeregister(CUstream stream) {
    return guarded([&] {
        std::lock_guard lock(streams().mutex);
        return streams().known.erase(stream) == 1 ? int{CU_FILE_SUCCESS} : int{CU_FILE_INVALID_VALUE};
    });
}

}  // extern "C"
