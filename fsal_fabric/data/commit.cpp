#include "fsal_fabric/data/commit.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "common/fault.h"
#include "common/metrics.h"
#include "fsal_fabric/data/descriptor.h"
#include "fsal_fabric/data/ops.h"
#include "fsal_fabric/data/runtime.h"

namespace fabric::fsal {
namespace {

metrics::Counter sync_errors("fabric_sync_errors_total", "fsync of a backing file that failed");
metrics::Gauge uncommitted_files("fabric_uncommitted_files", "Files with writes that were answered UNSTABLE");
std::atomic<int64_t> noted{0};

int64_t most_noted() {
    static const int64_t limit = [] {
        rlimit files{};
        getrlimit(RLIMIT_NOFILE, &files);
        return static_cast<int64_t>(std::min<rlim_t>(files.rlim_cur, 1 << 20) / 8);
    }();
    return limit;
}

UniqueFd take_uncommitted(Object& object) {
    UniqueFd fd(object.file.uncommitted.exchange(-1));
    if (fd) {
        noted.fetch_sub(1);
        uncommitted_files.add(-1);
    }
    return fd;
}

}  // namespace

// Who sees a descriptor here has written before a commit that has yet to take it, so that commit covers the write.
bool note_uncommitted(Object& object, int fd) {
    std::atomic<int>& uncommitted = object.file.uncommitted;
    if (uncommitted.load() >= 0) return true;
    if (noted.fetch_add(1) >= most_noted()) {
        noted.fetch_sub(1);
        return false;
    }
    UniqueFd copy(fcntl(fd, F_DUPFD_CLOEXEC, 3));
    int none = -1;
    if (copy && uncommitted.compare_exchange_strong(none, copy.get())) {
        uncommitted_files.add(1);
        (void)copy.release();
        return true;
    }
    noted.fetch_sub(1);
    return static_cast<bool>(copy);
}

int sync_file(Object& object, int fd) {
    int error = fault::hit("backing.fsync");
    if (error == 0 && fsync(fd) != 0) error = errno;
    if (error == 0) return 0;
    sync_errors.add(1);
    change_write_verifier("fsync of file " + std::to_string(object.fileid) + ": " + strerror(error));
    return error;
}

void settle_uncommitted(Object& object) {
    UniqueFd fd = take_uncommitted(object);
    struct stat status {};
    if (!fd || (fstat(fd.get(), &status) == 0 && status.st_nlink == 0)) return;
    sync_file(object, fd.get());
}

// The range is not looked at: other parts of the file may be committed early, which is allowed (RFC 1813 §3.3.21).
fsal_status_t commit2(fsal_obj_handle* handle, off_t, size_t) {
    Object& object = from(handle);
    std::lock_guard lock(object.file.commit_mutex);
    if (UniqueFd fd = take_uncommitted(object)) return to_fsal_errno(sync_file(object, fd.get()));
    FileIo io;
    fsal_status_t status = io.start_any(object);
    if (FSAL_IS_ERROR(status)) return status;
    return to_fsal_errno(sync_file(object, io.fd()));
}

void get_write_verifier(fsal_export*, gsh_buffdesc* verifier) {
    uint64_t value = write_verifier();
    memcpy(verifier->addr, &value, std::min(verifier->len, sizeof value));
}

}  // namespace fabric::fsal
