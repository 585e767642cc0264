// The C interface: checks what a caller gives, finds the objects behind handles, and turns a Status into an errno and a
// text. No exception leaves it.
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>

#include "xds/client/include/xds.h"
#include "xds/client/local.h"
#include "xds/client/many_operation.h"
#include "xds/client/mount.h"
#include "xds/client/queue.h"
#include "xds/client/registry.h"
#include "xds/memory/sim.h"

namespace fabric::xds::client {
namespace {

using Direction = DataOperation::Direction;

// Counts forks: what was opened before one has no threads in the child.
std::atomic<unsigned> forks{0};

struct Opened {
    std::shared_ptr<Context> context;
    unsigned fork = 0;
};
struct OpenFile {
    std::shared_ptr<File> file;
    unsigned fork = 0;
};
struct OpenQueue {
    std::shared_ptr<Queue> queue;
    unsigned fork = 0;
};
struct Registered {
    std::shared_ptr<Context> context;
    unsigned fork = 0;
    uint64_t number = 0;  // 0: the kind itself tells allocations apart
};

struct Registries {
    Registry<Opened, xds_ctx> contexts;
    Registry<OpenFile, xds_file> files;
    Registry<OpenQueue, xds_queue> queues;
    Registry<Registered, xds_buf> buffers;

    // Across a fork nobody may be in the middle of them.
    void lock() {
        contexts.mutex().lock();
        files.mutex().lock();
        queues.mutex().lock();
        buffers.mutex().lock();
    }
    void unlock() {
        buffers.mutex().unlock();
        queues.mutex().unlock();
        files.mutex().unlock();
        contexts.mutex().unlock();
    }
};

// Never destroyed: threads may still use it while the process exits.
Registries& registries() {
    static Registries* instance = [] {
        auto* fresh = new Registries;
        pthread_atfork([] { registries().lock(); }, [] { registries().unlock(); },
                       [] {
                           forks.fetch_add(1);
                           registries().unlock();
                       });
        return fresh;
    }();
    return *instance;
}

thread_local std::string last_error;

int failed(const Status& status) {
    last_error = status.message();
    return -status.errno_value();
}
int failed(int error, const char* text) { return failed(Status(Code::invalid, error, text)); }

// The object behind a handle, or why there is none.
template <typename T, typename Opaque>
Result<std::shared_ptr<T>> find(const Registry<T, Opaque>& registry, const Opaque* handle) {
    std::shared_ptr<T> found = registry.get(handle);
    if (found == nullptr) return Status(Code::invalid, EBADF, "this handle was closed, or never was one");
    if (found->fork != forks.load())
        return Status(Code::invalid, ENOTCONN,
                      "this was opened before fork(): the child has to open a context of its own");
    return found;
}

// Bad memory is the one thing that C++ may throw here.
template <typename F>
auto guarded(F&& call) -> decltype(call()) {
    try {
        return call();
    } catch (const std::bad_alloc&) {
        return failed(ENOMEM, "no memory");
    } catch (const std::exception& error) {
        return failed(EIO, error.what());
    }
}

const char* from_environment(const char* given, const char* name) {
    if (given != nullptr) return given;
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
}

Result<Mode> mode_from(uint32_t option) {
    static constexpr const char* names[] = {"auto", "direct_only", "staged", "tcp"};
    const char* value = std::getenv("XDS_MODE");
    if (value == nullptr || *value == 0) {
        if (option > XDS_MODE_TCP) return Status::invalid("options: unknown mode");
        return static_cast<Mode>(option);
    }
    for (int i = 0; i < 4; ++i)
        if (std::strcmp(value, names[i]) == 0) return static_cast<Mode>(i);
    return Status::invalid(std::string("XDS_MODE=") + value + ": expected auto, direct_only, staged or tcp");
}

// A caller of another version has a structure of another length: what it lacks is 0.
template <typename T>
Result<T> taken(const T* given) {
    T result{};
    if (given == nullptr) return result;
    if (given->size < sizeof(uint32_t) * 2 || given->size > 4096)
        return Status::invalid("a structure's size field is not set");
    std::memcpy(&result, given, std::min<size_t>(given->size, sizeof(T)));
    return result;
}

Result<Settings> settings_from(const xds_options* given) {
    Result<xds_options> options = taken(given);
    if (!options.ok()) return options.status();
    Settings settings;
    settings.address = from_environment(options->address, "XDS_ADDRESS");
    if (settings.address.empty())
        return Status::invalid("no target: set XDS_ADDRESS=HOST:PORT or the option `address`");
    settings.agent = from_environment(options->agent, "XDS_AGENT");
    Result<Mode> mode = mode_from(options->mode);
    if (!mode.ok()) return mode.status();
    settings.mode = *mode;
    unsigned streams = options->streams;
    if (const char* value = std::getenv("XDS_STREAMS"); streams == 0 && value != nullptr)
        streams = static_cast<unsigned>(std::strtoul(value, nullptr, 10));
    if (streams != 0) settings.streams = std::clamp(streams, 1U, 64U);
    if (options->timeout_ms != 0) settings.timeout = std::chrono::milliseconds(options->timeout_ms);
    if (options->piece != 0) settings.piece = std::clamp<size_t>(options->piece, 4096, wire::max_data);
    if (options->staging_bytes != 0) settings.staging_bytes = options->staging_bytes;
    settings.verify = options->verify != 0 || std::strcmp(from_environment(nullptr, "XDS_VERIFY"), "1") == 0;
    return settings;
}

Result<uint32_t> open_flags_from(int flags) {
    uint32_t result = 0;
    int access = flags & O_ACCMODE;
    if (access == O_RDONLY || access == O_RDWR) result |= wire::open_flags::read;
    if (access == O_WRONLY || access == O_RDWR) result |= wire::open_flags::write;
    if (flags & O_CREAT) result |= wire::open_flags::create;
    if (flags & O_EXCL) result |= wire::open_flags::exclusive;
    if (flags & O_TRUNC) result |= wire::open_flags::truncate;
    // These say nothing about XDS, and programs set them out of habit.
    int known = O_ACCMODE | O_CREAT | O_EXCL | O_TRUNC | O_CLOEXEC | O_DIRECT | O_LARGEFILE | O_NOCTTY;
    if ((flags & ~known) != 0) return Status::invalid("xds_open: flags beyond access, O_CREAT, O_EXCL and O_TRUNC");
    if ((flags & (O_CREAT | O_TRUNC)) != 0 && (result & wire::open_flags::write) == 0)
        return Status::invalid("xds_open: O_CREAT and O_TRUNC need O_WRONLY or O_RDWR");
    return result;
}

// umask(2) can only be read by setting it, which other threads would notice.
mode_t current_umask() {
    std::ifstream file("/proc/self/status");
    for (std::string line; std::getline(file, line);)
        if (line.starts_with("Umask:")) return static_cast<mode_t>(std::strtoul(line.c_str() + 6, nullptr, 8));
    return 022;
}

xds_file* add_file(std::shared_ptr<File> file) {
    auto entry = std::make_shared<OpenFile>();
    entry->file = std::move(file);
    entry->fork = forks.load();
    return registries().files.add(std::move(entry));
}

ssize_t transfer(const xds_file* handle, Direction direction, void* memory, size_t length, off_t offset) {
    Result<std::shared_ptr<OpenFile>> entry = find(registries().files, handle);
    if (!entry.ok()) return failed(entry.status());
    if (offset < 0 || length > SSIZE_MAX || length > INT64_MAX - static_cast<uint64_t>(offset))
        return failed(EINVAL, "impossible offset or length");
    if (length == 0) return 0;
    File& file = *(*entry)->file;
    Result<Way> way = choose_way(file, memory, length);
    if (!way.ok()) return failed(way.status());
    if (file.is_local()) {
        int64_t moved = transfer_locally(file, direction, memory, length, static_cast<uint64_t>(offset), way->kind());
        return moved < 0 ? failed(Status::from_errno(static_cast<int>(-moved), file.path())) : moved;
    }
    DataOperation operation;
    operation.set(file, direction, memory, length, static_cast<uint64_t>(offset), *way);
    if (Status status = file.context()->run(operation); !status.ok()) return failed(status);
    return operation.result();
}

}  // namespace
}  // namespace fabric::xds::client

using namespace fabric;
using namespace fabric::xds::client;

extern "C" {

const char* xds_error(void) { return last_error.c_str(); }
const char* xds_version(void) { return XDS_VERSION; }

int xds_ctx_open(const xds_options* options, xds_ctx** ctx) {
    return guarded([&] {
        if (ctx == nullptr) return failed(EINVAL, "xds_ctx_open: no place for the result");
        Result<Settings> settings = settings_from(options);
        if (!settings.ok()) return failed(settings.status());
        registries();  // before threads: it installs the fork handlers
        Result<std::shared_ptr<Context>> context = Context::open(*settings);
        if (!context.ok()) return failed(context.status());
        auto entry = std::make_shared<Opened>();
        entry->context = std::move(*context);
        entry->fork = forks.load();
        *ctx = registries().contexts.add(std::move(entry));
        return 0;
    });
}

int xds_ctx_close(xds_ctx* ctx) {
    return guarded([&] {
        std::shared_ptr<Opened> entry = registries().contexts.take(ctx);
        if (entry == nullptr) return failed(EBADF, "xds_ctx_close: this handle was closed, or never was one");
        if (entry->fork != forks.load()) {
            // Its threads and sockets are the parent's: the child lets go of the handle and touches nothing.
            new std::shared_ptr<Opened>(std::move(entry));
            return 0;
        }
        entry->context->close();
        return 0;
    });
}

int xds_open(xds_ctx* ctx, const char* path, int flags, mode_t mode, xds_file** file) {
    return guarded([&] {
        Result<std::shared_ptr<Opened>> entry = find(registries().contexts, ctx);
        if (!entry.ok()) return failed(entry.status());
        if (path == nullptr || *path == 0 || file == nullptr) return failed(EINVAL, "xds_open: no path, or no result");
        if (std::strlen(path) > fabric::xds::wire::max_path)
            return failed(ENAMETOOLONG, "xds_open: the path is too long");
        Result<uint32_t> wanted = open_flags_from(flags);
        if (!wanted.ok()) return failed(wanted.status());
        uint32_t bits = (flags & O_CREAT) != 0 ? mode & ~current_umask() & 07777U : 0;
        auto opened = std::make_shared<File>((*entry)->context, path, *wanted, bits);
        if (Status status = opened->open(); !status.ok()) return failed(status);
        *file = add_file(std::move(opened));
        return 0;
    });
}

int xds_open_fd(xds_ctx* ctx, int fd, xds_file** file) {
    return guarded([&] {
        Result<std::shared_ptr<Opened>> entry = find(registries().contexts, ctx);
        if (!entry.ok()) return failed(entry.status());
        if (file == nullptr) return failed(EINVAL, "xds_open_fd: no result");
        struct stat own;
        int flags = ::fcntl(fd, F_GETFL);
        if (flags < 0 || ::fstat(fd, &own) != 0) return failed(Status::from_errno(errno, "xds_open_fd"));
        Result<std::optional<std::string>> path = find_on_target(fd, from_environment(nullptr, "XDS_EXPORT"));
        if (!path.ok()) return failed(path.status());
        if (!*path) {
            UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
            if (!copy) return failed(Status::from_errno(errno, "xds_open_fd"));
            *file = add_file(std::make_shared<File>((*entry)->context, std::move(copy)));
            return 0;
        }
        Result<uint32_t> wanted = open_flags_from(flags & O_ACCMODE);
        auto opened = std::make_shared<File>((*entry)->context, **path, *wanted, 0);
        if (Status status = opened->open(); !status.ok()) return failed(status);
        Result<fabric::xds::wire::Attributes> theirs = opened->stat();
        if (!theirs.ok()) return failed(theirs.status());
        if (theirs->inode != own.st_ino) {
            (void)opened->close();
            return failed(ESTALE, "the target has another file at the descriptor's path: is XDS_EXPORT right?");
        }
        *file = add_file(std::move(opened));
        return 0;
    });
}

int xds_close(xds_file* file) {
    return guarded([&] {
        std::shared_ptr<OpenFile> entry = registries().files.take(file);
        if (entry == nullptr) return failed(EBADF, "xds_close: this handle was closed, or never was one");
        if (entry->fork != forks.load()) {
            new std::shared_ptr<OpenFile>(std::move(entry));
            return 0;
        }
        Status status = entry->file->close();
        return status.ok() ? 0 : failed(status);
    });
}

int xds_stat(xds_file* file, xds_attributes* attributes) {
    return guarded([&] {
        Result<std::shared_ptr<OpenFile>> entry = find(registries().files, file);
        if (!entry.ok()) return failed(entry.status());
        if (attributes == nullptr || attributes->size < 8) return failed(EINVAL, "xds_stat: the size field is not set");
        fabric::xds::wire::Attributes found;
        if ((*entry)->file->is_local()) {
            struct stat own;
            if (::fstat((*entry)->file->local_fd(), &own) != 0) return failed(Status::from_errno(errno, "fstat"));
            found = {static_cast<uint64_t>(own.st_size),
                     own.st_ino,
                     own.st_mtim.tv_sec * 1'000'000'000 + own.st_mtim.tv_nsec,
                     own.st_ctim.tv_sec * 1'000'000'000 + own.st_ctim.tv_nsec,
                     own.st_mode,
                     own.st_uid,
                     own.st_gid,
                     static_cast<uint32_t>(own.st_nlink)};
        } else {
            Result<fabric::xds::wire::Attributes> answer = (*entry)->file->stat();
            if (!answer.ok()) return failed(answer.status());
            found = *answer;
        }
        uint32_t size = std::min<uint32_t>(attributes->size, sizeof(xds_attributes));
        xds_attributes result{size,           found.mode, found.size, found.inode, found.mtime_ns,
                              found.ctime_ns, found.uid,  found.gid,  found.links, 0};
        std::memcpy(attributes, &result, size);
        return 0;
    });
}

int xds_buf_register(xds_ctx* ctx, void* address, size_t length, xds_buf** buf) {
    return guarded([&] {
        Result<std::shared_ptr<Opened>> entry = find(registries().contexts, ctx);
        if (!entry.ok()) return failed(entry.status());
        if (buf == nullptr) return failed(EINVAL, "xds_buf_register: no result");
        Result<fabric::xds::memory::Place> place = fabric::xds::memory::locate(address, length);
        if (!place.ok()) return failed(place.status());
        auto registered = std::make_shared<Registered>();
        registered->context = (*entry)->context;
        registered->fork = forks.load();
        registered->context->counters().registrations.fetch_add(1);
        if (place->allocation.id == 0 && place->kind->host_accessible())
            registered->number = registered->context->remember(address, length);
        *buf = registries().buffers.add(std::move(registered));
        return 0;
    });
}

int xds_buf_register_dmabuf(xds_ctx* ctx, int, uint64_t, size_t, xds_buf**) {
    Result<std::shared_ptr<Opened>> entry = find(registries().contexts, ctx);
    if (!entry.ok()) return failed(entry.status());
    return failed(ENOTSUP, "xds_buf_register_dmabuf: dma-bufs are not registered with RDMA network cards yet");
}

int xds_buf_deregister(xds_buf* buf) {
    return guarded([&] {
        std::shared_ptr<Registered> registered = registries().buffers.take(buf);
        if (registered == nullptr) return failed(EBADF, "xds_buf_deregister: not a registered buffer");
        if (registered->fork == forks.load() && registered->number != 0)
            registered->context->forget(registered->number);
        return 0;
    });
}

ssize_t xds_pread(xds_file* file, void* buffer, size_t length, off_t offset) {
    return guarded([&] { return transfer(file, Direction::read, buffer, length, offset); });
}

ssize_t xds_pwrite(xds_file* file, const void* buffer, size_t length, off_t offset) {
    return guarded([&] { return transfer(file, Direction::write, const_cast<void*>(buffer), length, offset); });
}

int xds_fsync(xds_file* file) {
    return guarded([&] {
        Result<std::shared_ptr<OpenFile>> entry = find(registries().files, file);
        if (!entry.ok()) return failed(entry.status());
        if ((*entry)->file->is_local())
            return ::fsync((*entry)->file->local_fd()) == 0 ? 0 : failed(Status::from_errno(errno, "fsync"));
        Status status = (*entry)->file->flush();
        return status.ok() ? 0 : failed(status);
    });
}

int xds_queue_create(xds_ctx* ctx, unsigned depth, xds_queue** queue) {
    return guarded([&] {
        Result<std::shared_ptr<Opened>> entry = find(registries().contexts, ctx);
        if (!entry.ok()) return failed(entry.status());
        if (queue == nullptr || depth == 0 || depth > 65536)
            return failed(EINVAL, "xds_queue_create: no result, or a depth outside of 1 to 65536");
        auto opened = std::make_shared<OpenQueue>();
        opened->queue = std::make_shared<Queue>((*entry)->context, depth);
        opened->fork = forks.load();
        *queue = registries().queues.add(std::move(opened));
        return 0;
    });
}

int xds_queue_destroy(xds_queue* queue) {
    return guarded([&] {
        std::shared_ptr<OpenQueue> entry = registries().queues.take(queue);
        if (entry == nullptr) return failed(EBADF, "xds_queue_destroy: this handle was closed, or never was one");
        if (entry->fork != forks.load()) new std::shared_ptr<OpenQueue>(std::move(entry));
        return 0;
    });
}

int xds_queue_submit(xds_queue* queue, const xds_io* ios, unsigned count) {
    return guarded([&] {
        Result<std::shared_ptr<OpenQueue>> entry = find(registries().queues, queue);
        if (!entry.ok()) return failed(entry.status());
        if (ios == nullptr && count > 0) return failed(EINVAL, "xds_queue_submit: no requests");
        const char* at = reinterpret_cast<const char*>(ios);
        for (unsigned i = 0; i < count; ++i) {
            // The caller's structures may be longer or shorter than ours.
            Result<xds_io> io = taken(reinterpret_cast<const xds_io*>(at));
            if (!io.ok()) return i > 0 ? static_cast<int>(i) : failed(io.status());
            std::shared_ptr<OpenFile> file = registries().files.get(io->file);
            bool usable =
                file != nullptr && file->fork == forks.load() && file->file->context() == (*entry)->queue->context();
            if (!(*entry)->queue->submit(*io, usable ? file->file : nullptr))
                return i > 0 ? static_cast<int>(i) : failed(EAGAIN, "xds_queue_submit: the queue is full");
            at += reinterpret_cast<const xds_io*>(at)->size;
        }
        return static_cast<int>(count);
    });
}

int xds_queue_wait(xds_queue* queue, xds_completion* completions, unsigned most, unsigned least, int timeout_ms) {
    return guarded([&] {
        Result<std::shared_ptr<OpenQueue>> entry = find(registries().queues, queue);
        if (!entry.ok()) return failed(entry.status());
        if ((completions == nullptr && most > 0) || least > most || most > INT32_MAX)
            return failed(EINVAL, "xds_queue_wait: fewer places than completions wanted");
        return (*entry)->queue->wait(completions, most, least, timeout_ms);
    });
}

int xds_queue_cancel(xds_queue* queue, uint64_t cookie) {
    return guarded([&] {
        Result<std::shared_ptr<OpenQueue>> entry = find(registries().queues, queue);
        if (!entry.ok()) return failed(entry.status());
        return (*entry)->queue->cancel(cookie) > 0 ? 0 : failed(ENOENT, "no request with that cookie is in progress");
    });
}

int xds_read_many(xds_ctx* ctx, xds_many* files, unsigned count) {
    return guarded([&] {
        Result<std::shared_ptr<Opened>> entry = find(registries().contexts, ctx);
        if (!entry.ok()) return failed(entry.status());
        if (count == 0) return 0;
        if (files == nullptr) return failed(EINVAL, "xds_read_many: no files");
        std::vector<const fabric::xds::memory::Kind*> kinds;
        for (unsigned i = 0; i < count; ++i) {
            if (files[i].size != sizeof(xds_many) || files[i].path == nullptr || *files[i].path == 0)
                return failed(EINVAL, "xds_read_many: an entry without path, or its size field is not set");
            Result<fabric::xds::memory::Place> place = fabric::xds::memory::locate(files[i].buffer, files[i].length);
            if (!place.ok()) return failed(place.status());
            kinds.push_back(place->kind);
        }
        Context& context = *(*entry)->context;
        ManyOperation operation(context, {files, count}, kinds);
        if (Status status = context.run(operation); !status.ok()) return failed(status);
        auto wrong = std::count_if(files, files + count, [](const xds_many& file) { return file.error != 0; });
        return static_cast<int>(wrong);
    });
}

int xds_stats_get(xds_ctx* ctx, xds_stats* stats) {
    return guarded([&] {
        Result<std::shared_ptr<Opened>> entry = find(registries().contexts, ctx);
        if (!entry.ok()) return failed(entry.status());
        if (stats == nullptr || stats->size < 8) return failed(EINVAL, "xds_stats_get: the size field is not set");
        Counters& counters = (*entry)->context->counters();
        xds_stats result{};
        result.size = std::min<uint32_t>(stats->size, sizeof(xds_stats));
        result.connections = static_cast<uint32_t>(counters.connections.load());
        result.requests = counters.requests.load();
        result.errors = counters.errors.load();
        result.messages = counters.messages.load();
        result.reconnects = counters.reconnects.load();
        result.registrations = counters.registrations.load();
        result.direct_bytes = counters.path_bytes[XDS_PATH_DIRECT].load();
        result.staged_bytes = counters.path_bytes[XDS_PATH_STAGED].load();
        result.tcp_bytes = counters.path_bytes[XDS_PATH_TCP].load();
        result.local_bytes = counters.path_bytes[XDS_PATH_LOCAL].load();
        result.verified_bytes = counters.verified_bytes.load();
        result.checksum_errors = counters.checksum_errors.load();
        std::memcpy(stats, &result, result.size);
        return 0;
    });
}

int xds_explain(xds_file* file, const void* buffer, size_t length, char* line, size_t room) {
    return guarded([&] {
        static constexpr const char* paths[] = {"none", "direct", "staged", "tcp", "local"};
        Result<std::shared_ptr<OpenFile>> entry = find(registries().files, file);
        if (!entry.ok()) return failed(entry.status());
        Result<Way> way = choose_way(*(*entry)->file, buffer, length);
        std::string text = way.ok() ? std::string(paths[way->path]) + ": " + std::string(way->kind().name()) +
                                          " memory; " + way->reason
                                    : "none: " + way.status().message();
        if (line != nullptr && room > 0) {
            size_t copied = std::min(room - 1, text.size());
            std::memcpy(line, text.data(), copied);
            line[copied] = 0;
        }
        return static_cast<int>(text.size());
    });
}

void* xds_sim_alloc(size_t length, int device) {
    Result<void*> memory = fabric::xds::memory::sim_allocate(length, device);
    if (memory.ok()) return *memory;
    failed(memory.status());
    return nullptr;
}
int xds_sim_free(void* address) {
    Status status = fabric::xds::memory::sim_free(address);
    return status.ok() ? 0 : failed(status);
}
int xds_sim_copy_in(void* to, const void* from_host, size_t length) {
    Status status = fabric::xds::memory::sim().copy_in(to, from_host, length);
    return status.ok() ? 0 : failed(status);
}
int xds_sim_copy_out(void* to_host, const void* from, size_t length) {
    Status status = fabric::xds::memory::sim().copy_out(to_host, from, length);
    return status.ok() ? 0 : failed(status);
}

}  // extern "C"
