// The C interface, but for queues and batches: checks what a caller gives, finds the objects behind handles, and turns
// a Status into an errno and a text. No exception leaves it.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>

#include "xds/client/handles.h"
#include "xds/client/include/xds.h"
#include "xds/client/mount.h"
#include "xds/client/options.h"
#include "xds/client/transfer.h"
#include "xds/memory/dmabuf.h"

namespace fabric::xds::client {
namespace {

using Direction = DataOperation::Direction;

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
    entry->fork = forks();
    return registries().files.add(std::move(entry));
}

// `context` null: of nobody.
int open_locally(std::shared_ptr<Context> context, int fd, xds_file** file) {
    UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!copy) return failed(Status::from_errno(errno, "xds_open_fd"));
    *file = add_file(std::make_shared<File>(std::move(context), std::move(copy)));
    return 0;
}

ssize_t transfer(const xds_file* handle, Direction direction, void* memory, size_t length, off_t offset) {
    Result<std::shared_ptr<OpenFile>> entry = find(registries().files, handle);
    if (!entry.ok()) return failed(entry.status());
    Result<size_t> moved = transfer(*(*entry)->file, direction, memory, length, offset);
    return moved.ok() ? static_cast<ssize_t>(*moved) : failed(moved.status());
}

}  // namespace
}  // namespace fabric::xds::client

using namespace fabric;
using namespace fabric::xds::client;

extern "C" {

const char* xds_error(void) { return last_error_text(); }
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
        entry->fork = forks();
        *ctx = registries().contexts.add(std::move(entry));
        return 0;
    });
}

int xds_ctx_close(xds_ctx* ctx) {
    return guarded([&] {
        std::shared_ptr<Opened> entry = registries().contexts.take(ctx);
        if (entry == nullptr) return failed(EBADF, "xds_ctx_close: this handle was closed, or never was one");
        if (entry->fork != forks()) {
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
        if (file == nullptr) return failed(EINVAL, "xds_open_fd: no result");
        if (ctx == nullptr) return open_locally(nullptr, fd, file);
        Result<std::shared_ptr<Opened>> entry = find(registries().contexts, ctx);
        if (!entry.ok()) return failed(entry.status());
        struct stat own;
        int flags = ::fcntl(fd, F_GETFL);
        if (flags < 0 || ::fstat(fd, &own) != 0) return failed(Status::from_errno(errno, "xds_open_fd"));
        Result<std::optional<std::string>> path =
            find_on_target(fd, from_environment(nullptr, "XDS_EXPORT"), from_environment(nullptr, "XDS_MOUNT"));
        if (!path.ok()) return failed(path.status());
        if (!*path) return open_locally((*entry)->context, fd, file);
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

int xds_is_local(xds_file* file) {
    return guarded([&] {
        Result<std::shared_ptr<OpenFile>> entry = find(registries().files, file);
        if (!entry.ok()) return failed(entry.status());
        return (*entry)->file->is_local() ? 1 : 0;
    });
}

int xds_close(xds_file* file) {
    return guarded([&] {
        std::shared_ptr<OpenFile> entry = registries().files.take(file);
        if (entry == nullptr) return failed(EBADF, "xds_close: this handle was closed, or never was one");
        if (entry->fork != forks()) {
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
        registered->fork = forks();
        registered->context->counters().registrations.fetch_add(1);
        if (place->allocation.id == 0 && place->kind->host_accessible())
            registered->number = registered->context->remember(address, length);
        registered->address = address;
        *buf = registries().buffers.add(std::move(registered));
        return 0;
    });
}

int xds_buf_register_dmabuf(xds_ctx* ctx, int fd, uint64_t offset, size_t length, xds_buf** buf) {
    return guarded([&] {
        Result<std::shared_ptr<Opened>> entry = find(registries().contexts, ctx);
        if (!entry.ok()) return failed(entry.status());
        if (buf == nullptr) return failed(EINVAL, "xds_buf_register_dmabuf: no result");
        Result<void*> address = fabric::xds::memory::dmabuf_add(fd, offset, length);
        if (!address.ok()) return failed(address.status());
        auto registered = std::make_shared<Registered>();
        registered->context = (*entry)->context;
        registered->fork = forks();
        registered->address = *address;
        registered->dmabuf = *fabric::xds::memory::dmabuf().identify(*address);
        registered->context->counters().registrations.fetch_add(1);
        *buf = registries().buffers.add(std::move(registered));
        return 0;
    });
}

void* xds_buf_address(xds_buf* buf) {
    Result<std::shared_ptr<Registered>> entry = find(registries().buffers, buf);
    if (entry.ok()) return (*entry)->address;
    failed(entry.status());
    return nullptr;
}

int xds_buf_deregister(xds_buf* buf) {
    return guarded([&] {
        std::shared_ptr<Registered> registered = registries().buffers.take(buf);
        if (registered == nullptr) return failed(EBADF, "xds_buf_deregister: not a registered buffer");
        if (registered->fork == forks() && registered->number != 0) registered->context->forget(registered->number);
        if (registered->dmabuf.size != 0) {
            if (registered->fork == forks())
                registered->context->forget(fabric::xds::memory::dmabuf(), registered->dmabuf.id);
            (void)fabric::xds::memory::dmabuf_remove(registered->address);
        }
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
        Result<Way> way = choose_way(*(*entry)->file, buffer, length, Direction::read, false);
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

}  // extern "C"
