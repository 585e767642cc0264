#include "fsal_fabric/object.h"

#include "fsal_fabric/data/data_ops.h"
#include "fsal_fabric/export.h"
#include "fsal_fabric/module.h"
#include "fsal_fabric/ops.h"
#include "fsal_fabric/status.h"
#include "fsal_fabric/wire_handle.h"

namespace fabric::fsal {
namespace {

// Ganesha wants two words; NFSv3 folds them into one (squash_fsid), which differs for different UUIDs but by accident.
fsal_fsid_t fsid_of(const fs::FilesystemUuid& uuid) {
    fsal_fsid_t fsid;
    static_assert(sizeof fsid == sizeof uuid);
    std::memcpy(&fsid, uuid.data(), sizeof fsid);
    return fsid;
}

}  // namespace

Object::Object(fsal_export& made_for, object_file_type_t object_type, const fs::FileId& file_id,
               fs::FilesystemPtr lies_on)
    : fsal_obj_handle{}, id(file_id), filesystem(std::move(lies_on)) {
    fsal_obj_handle_init(this, &made_for, object_type, true);
    fsid = fsid_of(filesystem->uuid());
    obj_ops = &module().object_ops;
    if (type == REGULAR_FILE) file.init(*this, made_for);
}

Object::~Object() {
    if (type == REGULAR_FILE) {
        close_object_file(*this);
        file.destroy();
    }
    fsal_obj_handle_fini(this, true);
}

Result<UniqueFd> Object::open(int flags) const {
    Result<UniqueFd> fd = filesystem->open(id, flags);
    int error = fd.ok() ? 0 : fd.status().errno_value();
    if ((error == EMFILE || error == ENFILE) && relieve_descriptors()) return filesystem->open(id, flags);
    return fd;
}

void release(fsal_obj_handle* handle) { delete &from(handle); }

fsal_status_t merge(fsal_obj_handle* original, fsal_obj_handle* duplicate) {
    if (original->type != REGULAR_FILE || duplicate->type != REGULAR_FILE) return fsal_ok();
    return merge_shares(from(original), from(duplicate));
}

// The FileId: the same object has the same key in every export.
void handle_to_key(fsal_obj_handle* handle, gsh_buffdesc* key) {
    std::span<const uint8_t> bytes = from(handle).id.bytes();
    key->addr = const_cast<uint8_t*>(bytes.data());
    key->len = bytes.size();
}

// The export comes from the request, not from the object, which all exports share.
fsal_status_t handle_to_wire(const fsal_obj_handle* object, fsal_digesttype_t, gsh_buffdesc* to) {
    std::span<uint8_t> space(static_cast<uint8_t*>(to->addr), to->len);
    size_t length = WireHandle::write(from(op_ctx->fsal_export).tag, from(object).id, space);
    if (length == 0) return fsalstat(ERR_FSAL_TOOSMALL, 0);
    to->len = length;
    return fsal_ok();
}

}  // namespace fabric::fsal
