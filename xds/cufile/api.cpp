// cuFile's entry points but for batches, streams and settings. Each says what came of it by cuFile's codes; no
// exception leaves.
#include <climits>

#include "xds/cufile/library.h"

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
    Library::get().statistics().count(Event::add_file, result.err == CU_FILE_SUCCESS);
    return result;
}

void cuFileHandleDeregister(CUfileHandle_t handle) {
    bool removed = false;
    (void)guarded([&] {
        removed = Library::get().remove_file(handle);
        return CU_FILE_SUCCESS;
    });
    Library::get().statistics().count(Event::remove_file, removed);
}

CUfileError_t cuFileBufRegister(const void* memory, size_t length, int flags) {
    CUfileError_t result = guarded([&] { return Library::get().add_buffer(memory, length, flags); });
    Library::get().statistics().registered(memory, length, result.err == CU_FILE_SUCCESS);
    return result;
}

CUfileError_t cuFileBufDeregister(const void* memory) {
    CUfileError_t result = guarded([&] { return Library::get().remove_buffer(memory); });
    Library::get().statistics().registered(memory, 0, result.err == CU_FILE_SUCCESS);
    return result;
}

// ---- data ----

ssize_t cuFileRead(CUfileHandle_t handle, void* memory, size_t size, off_t offset, off_t memory_offset) {
    return Library::get().read(handle, memory, size, offset, memory_offset);
}

ssize_t cuFileWrite(CUfileHandle_t handle, const void* memory, size_t size, off_t offset, off_t memory_offset) {
    return Library::get().write(handle, memory, size, offset, memory_offset);
}

// The parts one behind the other in the file, as preadv(2) has it: what was moved before an error counts.
static ssize_t move_parts(bool read, CUfileHandle_t handle, const CUfileIOVec_t* parts, size_t count, off_t offset,
                          unsigned flags) {
    if (parts == nullptr || count == 0 || count > INT_MAX || flags != 0 || offset < 0) return -CU_FILE_INVALID_VALUE;
    ssize_t done = 0;
    for (size_t i = 0; i < count; ++i) {
        if (parts[i].len == 0) continue;
        ssize_t moved = read ? Library::get().read(handle, parts[i].base, parts[i].len, offset + done, 0)
                             : Library::get().write(handle, parts[i].base, parts[i].len, offset + done, 0);
        if (moved < 0) return done > 0 ? done : moved;
        done += moved;
        if (static_cast<size_t>(moved) < parts[i].len) break;
    }
    return done;
}

ssize_t cuFileReadv(CUfileHandle_t handle, const CUfileIOVec_t* parts, size_t count, off_t offset, unsigned flags) {
    return move_parts(true, handle, parts, count, offset, flags);
}

ssize_t cuFileWritev(CUfileHandle_t handle, const CUfileIOVec_t* parts, size_t count, off_t offset, unsigned flags) {
    return move_parts(false, handle, parts, count, offset, flags);
}

}  // extern "C"
