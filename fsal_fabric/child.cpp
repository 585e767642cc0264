#include "fsal_fabric/child.h"

#include <memory>

#include "fsal_fabric/export.h"
#include "fsal_fabric/request_memo.h"
#include "fsal_fabric/status.h"

namespace fabric::fsal {
namespace {

Result<Object*> make(const fs::FilesystemPtr& filesystem, const fs::FileId& id, int fd, const struct statx& status,
                     fsal_attrlist* attributes) {
    auto object =
        std::make_unique<Object>(*op_ctx->fsal_export, type_of(static_cast<mode_t>(status.stx_mode)), id, filesystem);
    object->fileid = status.stx_ino;
    object->tells_created = (status.stx_mask & STATX_BTIME) != 0;
    object->created = status.stx_btime;
    if (attributes) {
        fsal_status_t filled = fill_attributes(*object, fd, status, attributes);
        if (FSAL_IS_ERROR(filled)) return Status::from_errno(filled.minor);
        RequestMemo::remember(id, 0, status, has_no_acl(*attributes));
    }
    return object.release();
}

}  // namespace

Result<Object*> make_object(const fs::FilesystemPtr& filesystem, const fs::FileId& id, int fd,
                            fsal_attrlist* attributes) {
    Result<struct statx> status = stat_descriptor(fd);
    if (!status.ok()) return status.status();
    return make(filesystem, id, fd, *status, attributes);
}

// Two system calls, without a descriptor. The name may stand for another file by the second one: then the inode number
// differs from that in the handle, unless the first file is gone and its inode used again, in which case the handle is
// stale and the attributes matter to nobody.
Result<Object*> make_entry(const Object& directory, int directory_fd, const char* name, fsal_attrlist& attributes) {
    if (!FSAL_TEST_MASK(attributes.request_mask, ATTR_ACL)) {
        Result<fs::FileId> id = directory.filesystem->identify(directory_fd, name);
        if (!id.ok() && id.status().errno_value() == ENOENT) return id.status();
        struct statx status;
        if (id.ok() && ::statx(directory_fd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
                               STATX_BASIC_STATS | STATX_BTIME, &status) == 0) {
            if (device_of(status) == directory.filesystem->device() && status.stx_ino == id->inode())
                return make(directory.filesystem, *id, -1, status, &attributes);
        }
    }
    UniqueFd child(::openat(directory_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!child) return Status::from_errno(errno);
    return make_child(directory, child.get(), &attributes);
}

Result<Object*> make_child(const Object& parent, int fd, fsal_attrlist* attributes) {
    Result<struct statx> status = stat_descriptor(fd);
    if (!status.ok()) return status.status();
    return make_child(parent, fd, *status, attributes);
}

Result<Object*> make_child(const Object& parent, int fd, const struct statx& status, fsal_attrlist* attributes) {
    fs::FilesystemPtr filesystem = parent.filesystem;
    if (dev_t device = device_of(status); device != filesystem->device()) {
        Result<fs::FilesystemPtr> entered = from(op_ctx->fsal_export).enter_filesystem(device, fd);
        if (!entered.ok()) return entered.status();
        filesystem = *entered;
    }
    Result<fs::FileId> id = filesystem->identify(fd);
    if (!id.ok()) return id.status();
    return make(filesystem, *id, fd, status, attributes);
}

}  // namespace fabric::fsal
