#include "fsal_fabric/data/commit.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "common/fault.h"
#include "common/metrics.h"
#include "fsal_fabric/data/descriptor.h"
#include "fsal_fabric/data/ops.h"
#include "fsal_fabric/data/runtime.h"
#include "fsal_fabric/data/write_back.h"

namespace fabric::fsal {
namespace {

metrics::Counter sync_errors("fabric_sync_errors_total", "fsync of a backing file that failed");
}  // namespace

bool note_uncommitted(Object& object, int fd) { return data_runtime().uncommitted.note(object, fd); }

int sync_file(Object& object, int fd) {
    int error = fault::hit("backing.fsync");
    if (error == 0 && fsync(fd) != 0) error = errno;
    if (error == 0) return 0;
    sync_errors.add(1);
    change_write_verifier("fsync of file " + std::to_string(object.fileid) + ": " + strerror(error));
    return error;
}

void settle_uncommitted(Object& object) {
    UniqueFd fd = data_runtime().uncommitted.take(object);
    struct stat status {};
    if (!fd || (fstat(fd.get(), &status) == 0 && status.st_nlink == 0)) return;
    sync_file(object, fd.get());
}

// The range is not looked at: other parts of the file may be committed early, which is allowed (RFC 1813 §3.3.21).
fsal_status_t commit2(fsal_obj_handle* handle, off_t, size_t) {
    Object& object = from(handle);
    std::optional<Status> held = commit_held(object);
    if (held && !held->ok()) return to_fsal_errno(held->errno_value());
    std::lock_guard lock(object.file.commit_mutex);
    if (UniqueFd fd = data_runtime().uncommitted.take(object)) return to_fsal_errno(sync_file(object, fd.get()));
    if (held) return fsal_ok();  // nothing was written through
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
