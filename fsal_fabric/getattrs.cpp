#include "fsal_fabric/attributes.h"
#include "fsal_fabric/data/descriptor.h"
#include "fsal_fabric/directory.h"
#include "fsal_fabric/ops.h"
#include "fsal_fabric/request_memo.h"
#include "fsal_fabric/status.h"

namespace fabric::fsal {
namespace {

bool fill_from_memo(const Object& object, fsal_attrlist& attributes) {
    const RequestMemo* memo = RequestMemo::find(object);
    if (memo == nullptr) return false;
    bool acl = FSAL_TEST_MASK(attributes.request_mask, ATTR_ACL);
    if (acl && !memo->has_no_acl) return false;
    FSAL_UNSET_MASK(attributes.request_mask, ATTR_ACL);
    fill_attributes(object, -1, memo->status, &attributes);
    if (acl) {
        FSAL_SET_MASK(attributes.request_mask, ATTR_ACL);
        FSAL_SET_MASK(attributes.valid_mask, ATTR_ACL);
    }
    return true;
}

fsal_status_t read_attributes(const Object& object, int fd, fsal_attrlist& attributes) {
    uint64_t changes = object.changes.load();
    Result<struct statx> status = stat_again(object, fd);
    if (!status.ok()) return to_fsal(status.status());
    fsal_status_t filled = fill_attributes(object, fd, *status, &attributes);
    if (FSAL_IS_SUCCESS(filled)) RequestMemo::remember(object.id, changes, *status, has_no_acl(attributes));
    return filled;
}

// By the object's own descriptor when it is open, as after stateless I/O, else by one that is opened for it.
fsal_status_t open_and_read(Object& object, fsal_attrlist& attributes) {
    if (object.type == REGULAR_FILE && object.file.global.base.openflags != FSAL_O_CLOSED) {
        FileIo io;
        if (FSAL_IS_SUCCESS(io.start_any(object))) return read_attributes(object, io.fd(), attributes);
    }
    // A folder's descriptor is one for reading, by which lists are cheaper to read (read_acl); a file is not opened so,
    // since that would break leases, nor anything else, where it would do things.
    if (object.type == DIRECTORY) {
        Result<Directory> directory = open_directory(object);
        return directory.ok() ? read_attributes(object, directory->get(), attributes) : to_fsal(directory.status());
    }
    Result<UniqueFd> fd = object.open(O_PATH | O_NOFOLLOW);
    return fd.ok() ? read_attributes(object, fd->get(), attributes) : to_fsal(fd.status());
}

}  // namespace

fsal_status_t getattrs(fsal_obj_handle* handle, fsal_attrlist* attributes) {
    Object& object = from(handle);
    if (fill_from_memo(object, *attributes)) return fsal_ok();
    fsal_status_t status = open_and_read(object, *attributes);
    if (FSAL_IS_ERROR(status) && FSAL_TEST_MASK(attributes->request_mask, ATTR_RDATTR_ERR))
        attributes->valid_mask = ATTR_RDATTR_ERR;
    return status;
}

}  // namespace fabric::fsal
