// libxds for C++20: xds.h with owners instead of handles and exceptions instead of error numbers. This header is all of
// it; link libxds. Objects move and are not copied; each ends what it owns when it goes. A context has to outlive what
// was opened in it, or that is closed with it and answers EBADF.
//
//   xds::Context context({.address = "storage-1:20053"});
//   xds::File file = context.open("model.safetensors", O_RDONLY);
//   size_t got = file.read(memory, 0);
//
// Thread rules are those of xds.h: everything may be called from any thread, but for moving and destroying an object
// that another thread uses.
#pragma once

#include <fcntl.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "xds.h"

namespace xds {

// code() is an errno value of std::generic_category(), what() the library's own text.
class Error : public std::system_error {
  public:
    Error(int error, const char* text) : std::system_error(error, std::generic_category(), text) {}
    int number() const { return code().value(); }
};

namespace detail {

// A count or 0, or the error of a call that returned a negative errno value.
template <typename Value>
Value checked(Value value) {
    if (value < 0) throw Error(static_cast<int>(-value), xds_error());
    return value;
}

// A handle and the function that ends it.
template <typename Handle, int (*end)(Handle*)>
class Owner {
  public:
    Owner() = default;
    explicit Owner(Handle* handle) : handle_(handle) {}
    Owner(Owner&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Owner& operator=(Owner&& other) noexcept {
        if (this != &other) {
            reset();
            handle_ = std::exchange(other.handle_, nullptr);
        }
        return *this;
    }
    ~Owner() { reset(); }
    Handle* get() const { return handle_; }
    // Ends it and tells what came of that.
    void close() {
        if (Handle* handle = std::exchange(handle_, nullptr)) checked(end(handle));
    }

  private:
    void reset() noexcept {
        if (Handle* handle = std::exchange(handle_, nullptr)) (void)end(handle);
    }
    Handle* handle_ = nullptr;
};

}  // namespace detail

enum class Mode : uint32_t {
    automatic = XDS_MODE_AUTO,
    direct_only = XDS_MODE_DIRECT_ONLY,
    staged = XDS_MODE_STAGED,
    tcp = XDS_MODE_TCP,
};
enum class Path : uint32_t {
    none = XDS_PATH_NONE,
    direct = XDS_PATH_DIRECT,
    staged = XDS_PATH_STAGED,
    tcp = XDS_PATH_TCP,
    local = XDS_PATH_LOCAL,
};

// Fields, units and defaults (empty, 0) are those of xds_options.
struct Options {
    std::string address = {};
    std::string agent = {};
    Mode mode = Mode::automatic;
    uint32_t streams = 0;
    uint32_t timeout_ms = 0;
    uint32_t piece = 0;
    uint32_t staging_bytes = 0;
    bool verify = false;
};

// An open file.
class File {
  public:
    // Fewer bytes than the memory has only at the end of the file. `Memory` is what std::span<std::byte> is made of, or
    // use the second form, for memory of an accelerator.
    size_t read(std::span<std::byte> memory, uint64_t offset) const {
        return read(memory.data(), memory.size(), offset);
    }
    size_t read(void* memory, size_t length, uint64_t offset) const {
        return static_cast<size_t>(
            detail::checked(xds_pread(owner_.get(), memory, length, static_cast<off_t>(offset))));
    }
    size_t write(std::span<const std::byte> memory, uint64_t offset) const {
        return write(memory.data(), memory.size(), offset);
    }
    size_t write(const void* memory, size_t length, uint64_t offset) const {
        return static_cast<size_t>(
            detail::checked(xds_pwrite(owner_.get(), memory, length, static_cast<off_t>(offset))));
    }
    void sync() const { detail::checked(xds_fsync(owner_.get())); }
    xds_attributes attributes() const {
        xds_attributes found{};
        found.size = sizeof found;
        detail::checked(xds_stat(owner_.get(), &found));
        return found;
    }
    // Which way data would go, and why.
    std::string explain(const void* memory, size_t length) const {
        std::string line(512, '\0');
        int size = detail::checked(xds_explain(owner_.get(), memory, length, line.data(), line.size()));
        line.resize(static_cast<size_t>(size) < line.size() ? static_cast<size_t>(size) : line.size() - 1);
        return line;
    }
    // This process reads and writes it itself.
    bool is_local() const { return detail::checked(xds_is_local(owner_.get())) == 1; }
    // The file behind a descriptor, used by this process itself; belongs to no context.
    static File local(int fd) {
        xds_file* file = nullptr;
        detail::checked(xds_open_fd(nullptr, fd, &file));
        return File(file);
    }
    // Throws what destruction would keep to itself.
    void close() { owner_.close(); }
    xds_file* get() const { return owner_.get(); }

  private:
    friend class Context;
    explicit File(xds_file* file) : owner_(file) {}
    detail::Owner<xds_file, xds_close> owner_;
};

// Memory that stays registered between requests. It must outlive this.
class Buffer {
  public:
    Buffer() = default;
    void close() { owner_.close(); }
    xds_buf* get() const { return owner_.get(); }

  private:
    friend class Context;
    explicit Buffer(xds_buf* buffer) : owner_(buffer) {}
    detail::Owner<xds_buf, xds_buf_deregister> owner_;
};

struct Completion {
    uint64_t cookie = 0;
    int64_t result = 0;  // bytes, or a negative errno value
    Path path = Path::none;
    std::string reason;  // why that path, or what went wrong
    bool ok() const { return result >= 0; }
    // Bytes, or the request's error.
    size_t bytes() const {
        if (result < 0) throw Error(static_cast<int>(-result), reason.c_str());
        return static_cast<size_t>(result);
    }
};

// Asynchronous requests. Memory belongs to the library until the completion was fetched or the queue is gone; the queue
// cancels and waits when it goes.
class Queue {
  public:
    // False: the queue is full; wait() makes room.
    bool read(const File& file, void* memory, uint64_t length, uint64_t offset, uint64_t cookie) {
        return submit(XDS_READ, file, memory, length, offset, cookie);
    }
    bool write(const File& file, const void* memory, uint64_t length, uint64_t offset, uint64_t cookie) {
        return submit(XDS_WRITE, file, const_cast<void*>(memory), length, offset, cookie);
    }
    bool sync(const File& file, uint64_t cookie) { return submit(XDS_FSYNC, file, nullptr, 0, 0, cookie); }
    // As soon as `least` have completed, at most `most`; fewer when the time is over (< 0: none) or none is in
    // progress.
    std::vector<Completion> wait(unsigned most, unsigned least = 1, int timeout_ms = -1) {
        std::vector<xds_completion> raw(most, fresh());
        int count = detail::checked(xds_queue_wait(owner_.get(), raw.data(), most, least, timeout_ms));
        std::vector<Completion> done;
        done.reserve(static_cast<size_t>(count));
        for (int i = 0; i < count; ++i) {
            const xds_completion& one = raw[static_cast<size_t>(i)];
            done.push_back({one.cookie, one.result, static_cast<Path>(one.path), one.reason});
        }
        return done;
    }
    // Asks; each of them still completes. False: there is none.
    bool cancel(uint64_t cookie) {
        int result = xds_queue_cancel(owner_.get(), cookie);
        if (result == -ENOENT) return false;
        detail::checked(result);
        return true;
    }
    void close() { owner_.close(); }
    xds_queue* get() const { return owner_.get(); }

  private:
    friend class Context;
    explicit Queue(xds_queue* queue) : owner_(queue) {}
    static xds_completion fresh() {
        xds_completion one{};
        one.size = sizeof one;
        return one;
    }
    bool submit(xds_op op, const File& file, void* memory, uint64_t length, uint64_t offset, uint64_t cookie) {
        xds_io io{sizeof io, static_cast<uint32_t>(op), file.get(), memory, length, offset, cookie};
        int taken = xds_queue_submit(owner_.get(), &io, 1);
        if (taken == -EAGAIN) return false;
        return detail::checked(taken) == 1;
    }
    detail::Owner<xds_queue, xds_queue_destroy> owner_;
};

// What a request in a stream moves, and how it ended: to be kept in place until it is over.
struct Transfer {
    size_t length = 0;  // looked at when the request's turn has come, as the offsets are
    off_t offset = 0;
    off_t memory_offset = 0;
    ssize_t result = 0;  // then bytes, or a negative errno value
};

// An order of work; see xds_stream_open. Destruction waits for what is in it.
class Stream {
  public:
    explicit Stream(const char* kind = "host", void* native = nullptr) {
        xds_stream* opened = nullptr;
        detail::checked(xds_stream_open(kind, native, &opened));
        owner_ = detail::Owner<xds_stream, xds_stream_close>(opened);
    }
    void read(const File& file, void* memory, Transfer& what) {
        detail::checked(xds_read_stream(file.get(), memory, &what.length, &what.offset, &what.memory_offset,
                                        &what.result, owner_.get()));
    }
    void write(const File& file, const void* memory, Transfer& what) {
        detail::checked(xds_write_stream(file.get(), memory, &what.length, &what.offset, &what.memory_offset,
                                         &what.result, owner_.get()));
    }
    // In the stream's order; the function must not throw.
    template <typename Function>
    void call(Function function) {
        auto held = std::make_unique<Function>(std::move(function));
        detail::checked(xds_stream_call(
            owner_.get(),
            [](void* argument) {
                std::unique_ptr<Function> mine(static_cast<Function*>(argument));
                (*mine)();
            },
            held.get()));
        (void)held.release();
    }
    // Waits for what was given before. Throws the first request's error since the last call.
    void sync() { detail::checked(xds_stream_sync(owner_.get())); }
    void close() { owner_.close(); }
    xds_stream* get() const { return owner_.get(); }

  private:
    detail::Owner<xds_stream, xds_stream_close> owner_;
};

// Connections to one target, and what is opened over them.
class Context {
  public:
    explicit Context(const Options& options = {}) {
        xds_options raw{};
        raw.size = sizeof raw;
        raw.mode = static_cast<uint32_t>(options.mode);
        raw.address = options.address.empty() ? nullptr : options.address.c_str();
        raw.agent = options.agent.empty() ? nullptr : options.agent.c_str();
        raw.streams = options.streams;
        raw.timeout_ms = options.timeout_ms;
        raw.piece = options.piece;
        raw.staging_bytes = options.staging_bytes;
        raw.verify = options.verify ? 1 : 0;
        xds_ctx* opened = nullptr;
        detail::checked(xds_ctx_open(&raw, &opened));
        owner_ = detail::Owner<xds_ctx, xds_ctx_close>(opened);
    }
    // Flags as for open(2); see xds_open.
    File open(const std::string& path, int flags = O_RDONLY, mode_t mode = 0666) const {
        xds_file* file = nullptr;
        detail::checked(xds_open(owner_.get(), path.c_str(), flags, mode, &file));
        return File(file);
    }
    // The file behind a descriptor; see xds_open_fd.
    File open_fd(int fd) const {
        xds_file* file = nullptr;
        detail::checked(xds_open_fd(owner_.get(), fd, &file));
        return File(file);
    }
    Buffer keep_registered(void* memory, size_t length) const {
        xds_buf* buffer = nullptr;
        detail::checked(xds_buf_register(owner_.get(), memory, length, &buffer));
        return Buffer(buffer);
    }
    Queue queue(unsigned depth) const {
        xds_queue* made = nullptr;
        detail::checked(xds_queue_create(owner_.get(), depth, &made));
        return Queue(made);
    }
    // Reads small files, each from its start; how many failed: each entry has its own error.
    unsigned read_many(std::span<xds_many> files) const {
        return static_cast<unsigned>(
            detail::checked(xds_read_many(owner_.get(), files.data(), static_cast<unsigned>(files.size()))));
    }
    xds_stats stats() const {
        xds_stats found{};
        found.size = sizeof found;
        detail::checked(xds_stats_get(owner_.get(), &found));
        return found;
    }
    void close() { owner_.close(); }
    xds_ctx* get() const { return owner_.get(); }

  private:
    detail::Owner<xds_ctx, xds_ctx_close> owner_;
};

}  // namespace xds
