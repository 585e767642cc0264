// Stands for NVIDIA's own library: uses files of this machine and host memory, and says at the end what it was asked.
#include <unistd.h>

#include <cstdio>

#include "xds/cufile/abi.h"

namespace {
int reads = 0, writes = 0;
__attribute__((destructor)) void report() { std::fprintf(stderr, "real library: reads=%d writes=%d\n", reads, writes); }
}  // namespace

extern "C" {
CUfileError_t cuFileDriverOpen(void) { return {CU_FILE_SUCCESS, 0}; }
CUfileError_t cuFileDriverClose_v2(void) { return {CU_FILE_SUCCESS, 0}; }
CUfileError_t cuFileHandleRegister(CUfileHandle_t* handle, CUfileDescr_t* description) {
    *handle = reinterpret_cast<void*>(static_cast<uintptr_t>(description->handle.fd) + 1);
    return {CU_FILE_SUCCESS, 0};
}
void cuFileHandleDeregister(CUfileHandle_t) {}
CUfileError_t cuFileBufRegister(const void*, size_t, int) { return {CU_FILE_SUCCESS, 0}; }
CUfileError_t cuFileBufDeregister(const void*) { return {CU_FILE_SUCCESS, 0}; }
ssize_t cuFileRead(CUfileHandle_t handle, void* memory, size_t size, off_t offset, off_t memory_offset) {
    ++reads;
    int fd = static_cast<int>(reinterpret_cast<uintptr_t>(handle)) - 1;
    return pread(fd, static_cast<char*>(memory) + memory_offset, size, offset);
}
ssize_t cuFileWrite(CUfileHandle_t handle, const void* memory, size_t size, off_t offset, off_t memory_offset) {
    ++writes;
    int fd = static_cast<int>(reinterpret_cast<uintptr_t>(handle)) - 1;
    return pwrite(fd, static_cast<const char*>(memory) + memory_offset, size, offset);
}
}
