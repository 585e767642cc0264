// Attributes of objects, from statx(2) to Ganesha's list.
#pragma once

#include <sys/stat.h>

#include "fsal_fabric/ganesha.h"
#include "fsal_fabric/object.h"

namespace fabric::fsal {

// What we serve.
constexpr attrmask_t supported_attributes = ATTRS_POSIX | ATTR_ACL | ATTR_CREATION | ATTR4_XATTR;

// statx with all that attributes are made of. Any descriptor, O_PATH too.
Result<struct statx> stat_descriptor(int fd);
// The same of an object that is known already, by a cheaper call: fstat, and the time of creation, which stays.
Result<struct statx> stat_again(const Object& object, int fd);
object_file_type_t type_of(mode_t mode);
dev_t device_of(const struct statx& status);

// Fills what was asked for in `list->request_mask`, the access control list too, for which `fd` is asked. With
// ATTR_RDATTR_ERR requested an error is noted in the list's valid_mask.
fsal_status_t fetch_attributes(const Object& object, int fd, fsal_attrlist* list);
// For a look-up or creation: has the access control list filled in as well. Ganesha puts it off to the first check of
// access, which follows at once in nearly all cases and would open the object once more. Where it caches no attributes,
// it asks again all the same. `list` may be null.
inline void ask_for_acl_too(fsal_attrlist* list) {
    if (list && op_ctx->export_perms.expire_time_attr != 0) FSAL_SET_MASK(list->request_mask, ATTR_ACL);
}
// Whether it was asked for the access control list, and there is none beside the mode.
inline bool has_no_acl(const fsal_attrlist& list) {
    return FSAL_TEST_MASK(list.request_mask, ATTR_ACL) && FSAL_TEST_MASK(list.valid_mask, ATTR_ACL) &&
           list.acl == nullptr;
}
// fetch_attributes from a statx that is at hand.
fsal_status_t fill_attributes(const Object& object, int fd, const struct statx& status, fsal_attrlist* list);

// Sets everything in `list->valid_mask` but ATTR_SIZE on an open descriptor (O_PATH is enough), with the identity of
// the calling thread: call it inside run_as_caller. `type` is the object's.
fsal_status_t set_attributes(object_file_type_t type, int fd, const fsal_attrlist& list);

}  // namespace fabric::fsal
