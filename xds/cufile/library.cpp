#include "xds/cufile/library.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cstdlib>

namespace fabric::xds::cufile {

int code_of(int number) {
    switch (number) {
        case EACCES:
        case EPERM:
            return CU_FILE_PERMISSION_DENIED;
        case ENOMEM:
            return CU_FILE_NOMEM_ERROR;
        case EFAULT:
            return CU_FILE_CUDA_POINTER_RANGE_ERROR;
        case EINVAL:
        case EBADF:
            return CU_FILE_INVALID_VALUE;
        case ENOTSUP:
            return CU_FILE_IO_NOT_SUPPORTED;
        default:
            return CU_FILE_IO_ERROR;
    }
}

Library::Library() : real_(Real::load()) {}

Library& Library::get() {
    static auto* library = new Library;
    return *library;
}

// ---- driver ----

void Library::open_driver() {
    if (uses_.fetch_add(1) == 0 && real_.there()) (void)real_.open();
}

int Library::close_driver() {
    long uses = uses_.load();
    do {
        if (uses <= 0) return CU_FILE_DRIVER_NOT_INITIALIZED;
    } while (!uses_.compare_exchange_weak(uses, uses - 1));
    if (uses == 1 && real_.there()) (void)real_.close();
    return CU_FILE_SUCCESS;
}

void Library::open_driver_if_closed() {
    long closed = 0;
    if (uses_.compare_exchange_strong(closed, 1) && real_.there()) (void)real_.open();
}

::xds::Context* Library::context() {
    std::lock_guard lock(context_mutex_);
    // Once: a program with many local files is not to wait for a target that is not there for each of them.
    if (!std::exchange(context_tried_, true) && std::getenv("XDS_ADDRESS") != nullptr) {
        try {
            context_ = std::make_unique<::xds::Context>();
        } catch (const ::xds::Error&) {
            // The files can still be used as the kernel shows them.
        }
    }
    return context_.get();
}

// ---- files ----

int Library::add_file(const CUfileDescr_t& description, CUfileHandle_t& handle) {
    open_driver_if_closed();
    auto file = std::make_shared<File>();
    if (description.type == CU_FILE_HANDLE_TYPE_USERSPACE_FS) {
        // A file system of the program's own: its calls are for the real library.
        if (!real_.there()) return CU_FILE_IO_NOT_SUPPORTED;
    } else if (description.type != CU_FILE_HANDLE_TYPE_OPAQUE_FD) {
        return CU_FILE_INVALID_FILE_TYPE;
    } else {
        file->fd = description.handle.fd;
        int flags = ::fcntl(file->fd, F_GETFL);
        struct stat status;
        if (flags < 0 || ::fstat(file->fd, &status) != 0) return CU_FILE_INVALID_VALUE;
        if (!S_ISREG(status.st_mode) && !S_ISBLK(status.st_mode)) return CU_FILE_INVALID_FILE_TYPE;
        if ((flags & O_APPEND) != 0) return CU_FILE_INVALID_FILE_OPEN_FLAG;
        if (::xds::Context* shared = context()) {
            file->xds = std::make_unique<::xds::File>(shared->open_fd(file->fd));
            file->remote = !file->xds->is_local();
        }
    }
    if (!file->remote && real_.there()) {
        CUfileDescr_t copy = description;
        CUfileError_t result = real_.add_file(&file->real, &copy);
        if (result.err != CU_FILE_SUCCESS) file->real = nullptr;
        if (file->real == nullptr && file->fd < 0) return result.err;
    }
    if (file->xds == nullptr && file->fd >= 0) file->xds = std::make_unique<::xds::File>(::xds::File::local(file->fd));
    std::unique_lock lock(mutex_);
    for (const auto& [number, other] : files_)
        if (file->fd >= 0 && other->fd == file->fd) {
            if (file->real != nullptr) real_.remove_file(file->real);
            return CU_FILE_HANDLE_ALREADY_REGISTERED;
        }
    uintptr_t number = ++last_file_;
    files_.emplace(number, std::move(file));
    handle = reinterpret_cast<CUfileHandle_t>(number);
    return CU_FILE_SUCCESS;
}

bool Library::remove_file(CUfileHandle_t handle) {
    std::unique_lock lock(mutex_);
    auto found = files_.find(reinterpret_cast<uintptr_t>(handle));
    if (found == files_.end()) return false;
    std::shared_ptr<File> file = std::move(found->second);
    files_.erase(found);
    lock.unlock();
    if (file->real != nullptr) real_.remove_file(file->real);
    return true;
}

std::shared_ptr<File> Library::file(CUfileHandle_t handle) const {
    std::shared_lock lock(mutex_);
    auto found = files_.find(reinterpret_cast<uintptr_t>(handle));
    return found == files_.end() ? nullptr : found->second;
}

// ---- memory ----

int Library::add_buffer(const void* memory, size_t length, int flags) {
    if (memory == nullptr || length == 0) return CU_FILE_INVALID_VALUE;
    open_driver_if_closed();
    {
        std::shared_lock lock(mutex_);
        if (buffers_.contains(memory)) return CU_FILE_MEMORY_ALREADY_REGISTERED;
    }
    ::xds::Buffer buffer;
    if (::xds::Context* shared = context()) buffer = shared->keep_registered(const_cast<void*>(memory), length);
    if (real_.there()) {
        CUfileError_t result = real_.add_buffer(memory, length, flags);
        // Where XDS has it, it is no loss when the real library cannot.
        if (result.err != CU_FILE_SUCCESS && buffer.get() == nullptr) return result.err;
    }
    std::unique_lock lock(mutex_);
    return buffers_.emplace(memory, std::move(buffer)).second ? CU_FILE_SUCCESS : CU_FILE_MEMORY_ALREADY_REGISTERED;
}

int Library::remove_buffer(const void* memory) {
    std::unique_lock lock(mutex_);
    auto found = buffers_.find(memory);
    if (found == buffers_.end()) return CU_FILE_MEMORY_NOT_REGISTERED;
    ::xds::Buffer buffer = std::move(found->second);
    buffers_.erase(found);
    lock.unlock();
    if (real_.there()) (void)real_.remove_buffer(memory);
    return CU_FILE_SUCCESS;
}

// ---- data ----

// `move(file, address)`: bytes, -1 with errno, or a negative code.
template <typename Move>
ssize_t Library::transfer(CUfileHandle_t handle, const void* memory, off_t offset, off_t memory_offset, Move&& move) {
    std::shared_ptr<File> found = file(handle);
    if (found == nullptr) return -CU_FILE_HANDLE_NOT_REGISTERED;
    if (memory == nullptr || offset < 0 || memory_offset < 0) return -CU_FILE_INVALID_VALUE;
    try {
        return move(*found);
    } catch (const ::xds::Error& thrown) {
        errno = thrown.number();
        // What is wrong with the memory is the library's error, all else the file system's.
        return errno == EFAULT ? -CU_FILE_CUDA_POINTER_RANGE_ERROR : -1;
    } catch (const std::bad_alloc&) {
        return -CU_FILE_NOMEM_ERROR;
    }
}

ssize_t Library::move(bool read, CUfileHandle_t handle, void* memory, size_t size, off_t offset, off_t memory_offset) {
    return transfer(handle, memory, offset, memory_offset, [&](File& file) -> ssize_t {
        if (file.real != nullptr)
            return read ? real_.read(file.real, memory, size, offset, memory_offset)
                        : real_.write(file.real, memory, size, offset, memory_offset);
        char* at = static_cast<char*>(memory) + memory_offset;
        auto from = static_cast<uint64_t>(offset);
        return static_cast<ssize_t>(read ? file.xds->read(at, size, from) : file.xds->write(at, size, from));
    });
}

ssize_t Library::counted(bool read, CUfileHandle_t handle, void* memory, size_t size, off_t offset,
                         off_t memory_offset) {
    Clock clock;
    ssize_t result = move(read, handle, memory, size, offset, memory_offset);
    int error = errno;
    std::shared_ptr<File> used = file(handle);
    statistics_.moved(read, result, clock.microseconds(), memory, used == nullptr || !used->remote);
    errno = error;
    return result;
}

ssize_t Library::read(CUfileHandle_t handle, void* memory, size_t size, off_t offset, off_t memory_offset) {
    return counted(true, handle, memory, size, offset, memory_offset);
}

ssize_t Library::write(CUfileHandle_t handle, const void* memory, size_t size, off_t offset, off_t memory_offset) {
    return counted(false, handle, const_cast<void*>(memory), size, offset, memory_offset);
}

}  // namespace fabric::xds::cufile
