#include "fsal_fabric/child.h"

#include <memory>

#include "fsal_fabric/export.h"
#include "fsal_fabric/status.h"

namespace fabric::fsal {
namespace {

Result<Object*> make(const fs::FilesystemPtr& filesystem, const fs::FileId& id, int fd, const struct statx& status,
                     fsal_attrlist* attributes) {
    auto object =
        std::make_unique<Object>(*op_ctx->fsal_export, type_of(static_cast<mode_t>(status.stx_mode)), id, filesystem);
    object->fileid = status.stx_ino;
    if (attributes) {
        fsal_status_t filled = fill_attributes(*object, fd, status, attributes);
        if (FSAL_IS_ERROR(filled)) return Status::from_errno(filled.minor);
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

Result<Object*> make_child(const Object& parent, int fd, fsal_attrlist* attributes) {
    Result<struct statx> status = stat_descriptor(fd);
    if (!status.ok()) return status.status();
    fs::FilesystemPtr filesystem = parent.filesystem;
    if (dev_t device = device_of(*status); device != filesystem->device()) {
        Result<fs::FilesystemPtr> entered = from(op_ctx->fsal_export).enter_filesystem(device, fd);
        if (!entered.ok()) return entered.status();
        filesystem = *entered;
    }
    Result<fs::FileId> id = filesystem->identify(fd);
    if (!id.ok()) return id.status();
    return make(filesystem, *id, fd, *status, attributes);
}

}  // namespace fabric::fsal
