// What the process's cuFile calls share: the context of libxds, files, memory, counts. One object, made by the first
// call and never destroyed.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "xds/client/include/xds.hpp"
#include "xds/cufile/abi.h"
#include "xds/cufile/real.h"
#include "xds/cufile/statistics.h"

namespace fabric::xds::cufile {

// A registered file. Three ways: XDS, the real library, this process itself.
struct File {
    int fd = -1;                       // the program's own, which it closes after the handle
    std::unique_ptr<::xds::File> xds;  // of the target, or of this process itself
    CUfileHandle_t real = nullptr;     // in the real library
    bool remote = false;               // by XDS
};

inline CUfileError_t error(int code) { return {code, 0}; }
// The code that says best what an errno value means.
int code_of(int number);

// Thread safe.
class Library {
  public:
    static Library& get();

    void open_driver();
    // CU_FILE_DRIVER_NOT_INITIALIZED: it was not open.
    int close_driver();
    long uses() const { return uses_.load(); }
    // Where a program never opens the driver: open it now.
    void open_driver_if_closed();

    int add_file(const CUfileDescr_t& description, CUfileHandle_t& handle);
    bool remove_file(CUfileHandle_t handle);
    std::shared_ptr<File> file(CUfileHandle_t handle) const;

    int add_buffer(const void* memory, size_t length, int flags);
    int remove_buffer(const void* memory);

    // The real library's, or what it moved itself: bytes, -1 with errno, or a negative code.
    ssize_t read(CUfileHandle_t handle, void* memory, size_t size, off_t offset, off_t memory_offset);
    ssize_t write(CUfileHandle_t handle, const void* memory, size_t size, off_t offset, off_t memory_offset);

    // The same, not counted: part of a batch.
    ssize_t move(bool read, CUfileHandle_t handle, void* memory, size_t size, off_t offset, off_t memory_offset);

    // Null: XDS_ADDRESS is not set, or nobody answers there.
    ::xds::Context* context();
    Statistics& statistics() { return statistics_; }
    const Real& real() const { return real_; }

  private:
    Library();
    ssize_t counted(bool read, CUfileHandle_t handle, void* memory, size_t size, off_t offset, off_t memory_offset);
    template <typename Move>
    ssize_t transfer(CUfileHandle_t handle, const void* memory, off_t offset, off_t memory_offset, Move&& move);

    const Real real_;
    std::atomic<long> uses_{0};
    std::mutex context_mutex_;
    std::unique_ptr<::xds::Context> context_;
    bool context_tried_ = false;
    mutable std::shared_mutex mutex_;  // of the maps
    // By number: a stale handle finds nothing.
    std::map<uintptr_t, std::shared_ptr<File>> files_;
    uintptr_t last_file_ = 0;
    std::map<const void*, ::xds::Buffer> buffers_;  // the buffer is empty where there is no context
    Statistics statistics_;
};

// No exception leaves an entry point.
template <typename Call>
CUfileError_t guarded(Call&& call) {
    try {
        return error(call());
    } catch (const ::xds::Error& thrown) {
        return error(code_of(thrown.number()));
    } catch (const std::bad_alloc&) {
        return error(CU_FILE_NOMEM_ERROR);
    } catch (const std::exception&) {
        return error(CU_FILE_INTERNAL_ERROR);
    }
}

}  // namespace fabric::xds::cufile
