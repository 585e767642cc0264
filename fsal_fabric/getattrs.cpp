#include "fsal_fabric/attributes.h"
#include "fsal_fabric/data/descriptor.h"
#include "fsal_fabric/ops.h"
#include "fsal_fabric/status.h"

namespace fabric::fsal {

// By the object's own descriptor when it is open, as after stateless I/O, else by one that is opened for it.
fsal_status_t getattrs(fsal_obj_handle* handle, fsal_attrlist* attributes) {
    Object& object = from(handle);
    if (object.type == REGULAR_FILE && object.file.global.base.openflags != FSAL_O_CLOSED) {
        FileIo io;
        if (FSAL_IS_SUCCESS(io.start_any(object))) return fetch_attributes(object, io.fd(), attributes);
    }
    // A folder is opened for reading, since lists are cheaper to read by such a descriptor (read_acl); a file is not,
    // since that would break leases, nor anything else, where it would do things.
    Result<UniqueFd> fd = object.open(object.type == DIRECTORY ? O_RDONLY | O_DIRECTORY : O_PATH | O_NOFOLLOW);
    if (fd.ok()) return fetch_attributes(object, fd->get(), attributes);
    if (FSAL_TEST_MASK(attributes->request_mask, ATTR_RDATTR_ERR)) attributes->valid_mask = ATTR_RDATTR_ERR;
    return to_fsal(fd.status());
}

}  // namespace fabric::fsal
