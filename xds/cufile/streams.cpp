// cuFile's calls in streams: requests in the order of a CUDA stream. Where there is no CUDA driver, each stream's
// number is an order of the library's own.
#include <map>
#include <mutex>

#include "xds/cufile/library.h"

namespace fabric::xds::cufile {
namespace {

// What a program promises of a stream's requests: the value is known when it asks, not only when the turn has come.
enum : unsigned { fixed_memory_offset = 1, fixed_file_offset = 2, fixed_size = 4, aligned = 8, all_flags = 15 };

struct Ordered {
    explicit Ordered(CUstream stream) : order(open(stream)) {}
    static ::xds::Stream open(CUstream stream) {
        try {
            return ::xds::Stream("cuda", stream);
        } catch (const ::xds::Error& error) {
            if (error.number() != ENOTSUP) throw;
            return ::xds::Stream("host");
        }
    }
    ::xds::Stream order;
    std::atomic<unsigned> flags{0};
    bool registered = false;
};

struct Streams {
    std::mutex mutex;
    std::map<CUstream, std::shared_ptr<Ordered>> all;
};
Streams& streams() {
    static auto* instance = new Streams;
    return *instance;
}

std::shared_ptr<Ordered> ordered(CUstream stream) {
    std::lock_guard lock(streams().mutex);
    std::shared_ptr<Ordered>& found = streams().all[stream];
    try {
        if (found == nullptr) found = std::make_shared<Ordered>(stream);
    } catch (...) {
        streams().all.erase(stream);
        throw;
    }
    return found;
}

struct Arguments {
    CUfileHandle_t handle;
    void* memory;
    size_t* size;
    off_t *offset, *memory_offset;
    ssize_t* moved;
};

// When its turn has come. What was fixed when the program asked was kept since.
class Request {
  public:
    Request(const Arguments& given, unsigned flags, bool reads)
        : given_(given),
          flags_(flags),
          reads_(reads),
          size_(*given.size),
          offset_(*given.offset),
          memory_offset_(*given.memory_offset) {}
    void operator()() const {
        size_t size = (flags_ & fixed_size) != 0 ? size_ : *given_.size;
        off_t offset = (flags_ & fixed_file_offset) != 0 ? offset_ : *given_.offset;
        off_t at = (flags_ & fixed_memory_offset) != 0 ? memory_offset_ : *given_.memory_offset;
        Library& library = Library::get();
        // Bytes, -1 for what the file system refused, or one of cuFile's codes, negative, as documented.
        *given_.moved = reads_ ? library.read(given_.handle, given_.memory, size, offset, at)
                               : library.write(given_.handle, given_.memory, size, offset, at);
    }

  private:
    Arguments given_;
    unsigned flags_;
    bool reads_;
    size_t size_;
    off_t offset_, memory_offset_;
};

CUfileError_t enqueue(const Arguments& given, CUstream stream, bool reads) {
    CUfileError_t theirs{};
    CUfileError_t result = guarded([&] {
        if (given.memory == nullptr || given.size == nullptr || given.offset == nullptr ||
            given.memory_offset == nullptr || given.moved == nullptr)
            return int{CU_FILE_INVALID_VALUE};
        std::shared_ptr<File> file = Library::get().file(given.handle);
        if (file == nullptr) return int{CU_FILE_HANDLE_NOT_REGISTERED};
        const Real& real = Library::get().real();
        if (auto call = reads ? real.read_async : real.write_async; file->real != nullptr && call != nullptr) {
            theirs = call(file->real, given.memory, given.size, given.offset, given.memory_offset, given.moved, stream);
            return theirs.err;
        }
        std::shared_ptr<Ordered> found = ordered(stream);
        found->order.call(Request(given, found->flags, reads));
        return int{CU_FILE_SUCCESS};
    });
    return theirs.err != CU_FILE_SUCCESS ? theirs : result;
}

}  // namespace
}  // namespace fabric::xds::cufile

using namespace fabric::xds::cufile;

extern "C" {

CUfileError_t cuFileReadAsync(CUfileHandle_t handle, void* memory, size_t* size, off_t* offset, off_t* memory_offset,
                              ssize_t* got, CUstream stream) {
    return enqueue({handle, memory, size, offset, memory_offset, got}, stream, true);
}

CUfileError_t cuFileWriteAsync(CUfileHandle_t handle, void* memory, size_t* size, off_t* offset, off_t* memory_offset,
                               ssize_t* written, CUstream stream) {
    return enqueue({handle, memory, size, offset, memory_offset, written}, stream, false);
}

CUfileError_t cuFileStreamRegister(CUstream stream, unsigned flags) {
    return guarded([&] {
        if ((flags & ~unsigned{all_flags}) != 0) return int{CU_FILE_INVALID_VALUE};
        Library::get().open_driver_if_closed();
        std::shared_ptr<Ordered> found = ordered(stream);
        {
            std::lock_guard lock(streams().mutex);
            if (std::exchange(found->registered, true)) return int{CU_FILE_INVALID_VALUE};
            found->flags = flags;
        }
        if (auto call = Library::get().real().add_stream; call != nullptr) (void)call(stream, flags);
        return int{CU_FILE_SUCCESS};
    });
}

// Waits for what is in it.
CUfileError_t cuFileStreamDeregister(CUstream stream) {
    return guarded([&] {
        std::unique_lock lock(streams().mutex);
        auto found = streams().all.find(stream);
        if (found == streams().all.end() || !found->second->registered) return int{CU_FILE_INVALID_VALUE};
        std::shared_ptr<Ordered> last = std::move(found->second);
        streams().all.erase(found);
        lock.unlock();
        last->order.close();
        if (auto call = Library::get().real().remove_stream; call != nullptr) (void)call(stream);
        return int{CU_FILE_SUCCESS};
    });
}

}  // extern "C"
