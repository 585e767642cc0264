#include "fsal_fabric/data/descriptor.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>

#include "common/fault.h"
#include "fsal_fabric/caller.h"
#include "fsal_fabric/data/relief.h"
#include "fsal_fabric/data/write_back.h"

namespace fabric::fsal {
namespace {

// Descriptors for O_DIRECT stand beside those that Ganesha counts, so they get an eighth of the limit for themselves.
std::atomic<int64_t> direct_open{0};

int64_t direct_limit() {
    static const int64_t limit = [] {
        rlimit files{};
        getrlimit(RLIMIT_NOFILE, &files);
        return static_cast<int64_t>(std::min<rlim_t>(files.rlim_cur, 1 << 20) / 8);
    }();
    return limit;
}

int access_mode(fsal_openflags_t flags) {
    if ((flags & FSAL_O_RDWR) == FSAL_O_RDWR) return O_RDWR;
    return (flags & FSAL_O_WRITE) != 0 ? O_WRONLY : O_RDONLY;
}

// EMFILE: one round of relief, then the client is asked to come again.
Result<UniqueFd> open_with_relief(Object& object, int flags) {
    if (int error = fault::hit("backing.open")) return Status::from_errno(error, "open");
    Result<UniqueFd> opened = object.open(flags);
    if (opened.ok()) return opened;
    int error = opened.status().errno_value();
    if ((error == EMFILE || error == ENFILE) && relieve_descriptors()) return object.open(flags);
    return opened;
}

}  // namespace

int posix_flags(fsal_openflags_t flags) {
    return access_mode(flags) | ((flags & FSAL_O_TRUNC) != 0 ? O_TRUNC : 0) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
}

void init_descriptor(Fd& descriptor, fsal_fd_type type, fsal_export* owner) {
    init_fsal_fd(&descriptor.base, type, owner);
    descriptor.fd = -1;
    descriptor.direct_fd = -1;
    descriptor.direct_refused = false;
}

fsal_status_t open_descriptor(Object& object, Fd& descriptor, fsal_openflags_t flags) {
    Result<UniqueFd> opened = open_with_relief(object, posix_flags(flags & ~FSAL_O_TRUNC));
    if (!opened.ok()) return to_fsal(opened.status());
    if ((flags & FSAL_O_TRUNC) != 0)
        if (int error = truncate_object(object, opened->get(), 0)) return to_fsal_errno(error);
    watch_descriptors(opened->get());
    if (descriptor.fd >= 0) close_descriptor(descriptor);
    descriptor.fd = opened->release();
    descriptor.base.openflags = FSAL_O_NFS_FLAGS(flags);
    return fsal_ok();
}

fsal_status_t close_descriptor(Fd& descriptor) {
    if (descriptor.fd < 0) return fsalstat(ERR_FSAL_NOT_OPENED, 0);
    int direct = descriptor.direct_fd.exchange(-1);
    if (direct >= 0) {
        ::close(direct);
        direct_open.fetch_sub(1);
    }
    int result = ::close(descriptor.fd);
    int error = result == 0 ? 0 : errno;
    descriptor.fd = -1;
    descriptor.base.openflags = FSAL_O_CLOSED;
    return error == 0 || error == EINTR ? fsal_ok() : to_fsal_errno(error);
}

int direct_descriptor(Object& object, Fd& descriptor) {
    if (descriptor.direct_refused.load(std::memory_order_relaxed)) return -1;
    int known = descriptor.direct_fd.load();
    if (known >= 0) return known;
    if (direct_open.fetch_add(1) >= direct_limit()) {
        direct_open.fetch_sub(1);
        return -1;
    }
    Result<UniqueFd> opened = object.open(access_mode(descriptor.base.openflags) | O_DIRECT | O_CLOEXEC | O_NOFOLLOW);
    int expected = -1;
    if (opened.ok() && descriptor.direct_fd.compare_exchange_strong(expected, opened->get())) return opened->release();
    direct_open.fetch_sub(1);
    if (!opened.ok() && opened.status().errno_value() == EINVAL) descriptor.direct_refused = true;
    return expected;  // another thread's, when it was first
}

fsal_status_t close_func(fsal_obj_handle*, fsal_fd* base) { return close_descriptor(Fd::from(base)); }

// For the first lock of an owner Ganesha opens the file both ways, and as the client has it open when that is refused
// with ERR_FSAL_ACCESS (fsal_start_io): so locks for reading work on a read-only file system, too.
fsal_status_t reopen_func(fsal_obj_handle* handle, fsal_openflags_t flags, fsal_fd* base) {
    fsal_status_t status = open_descriptor(from(handle), Fd::from(base), flags);
    bool for_locks = base->fd_type == FSAL_FD_STATE && (flags & FSAL_O_RDWR) == FSAL_O_RDWR;
    bool not_writable = status.minor == EROFS || status.minor == ETXTBSY || status.minor == EPERM;
    if (FSAL_IS_ERROR(status) && for_locks && not_writable) return fsalstat(ERR_FSAL_ACCESS, status.minor);
    return status;
}

void FileIo::prepare(Object& object) {
    object_ = &object;
    init_descriptor(temporary_, FSAL_FD_TEMP, op_ctx->fsal_export);
}

fsal_status_t FileIo::start(Object& object, state_t* state, fsal_openflags_t flags, bool bypass, bool for_locks) {
    prepare(object);
    FileData& file = object.file;
    fsal_status_t status = fsal_start_io(&used_, &object, &file.global.base, &temporary_.base, state, flags, for_locks,
                                         nullptr, bypass, &file.share);
    if (FSAL_IS_ERROR(status)) {
        used_ = nullptr;
        return status;
    }
    if (state == nullptr && flags != FSAL_O_ANY) shared_ = flags;
    return status;
}

fsal_status_t FileIo::start_any(Object& object) {
    prepare(object);
    fsal_status_t status =
        fsal_start_global_io(&used_, &object, &object.file.global.base, &temporary_.base, FSAL_O_ANY, false, nullptr);
    if (FSAL_IS_ERROR(status)) used_ = nullptr;
    return status;
}

// A temporary descriptor has no locks or list links of its own, so it may change its place.
FileIo::FileIo(FileIo&& other) noexcept : object_(other.object_), shared_(other.shared_) {
    bool temporary = other.used_ == &other.temporary_.base;
    temporary_.base = other.temporary_.base;
    temporary_.fd = other.temporary_.fd;
    temporary_.direct_fd = other.temporary_.direct_fd.load();
    temporary_.direct_refused = other.temporary_.direct_refused.load();
    used_ = temporary ? &temporary_.base : other.used_;
    other.used_ = nullptr;
}

void FileIo::finish() {
    if (used_ == nullptr) return;
    fsal_complete_io(object_, used_);
    used_ = nullptr;
    if (shared_ != FSAL_O_CLOSED) update_share_counters_locked(object_, &object_->file.share, shared_, FSAL_O_CLOSED);
}

}  // namespace fabric::fsal
