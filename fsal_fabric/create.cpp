#include "fsal_fabric/create.h"

namespace fabric::fsal {

mode_t mode_of(const fsal_attrlist& set) { return set.mode & 07777; }

fsal_attrlist after_creation(const fsal_attrlist& set) {
    fsal_attrlist left = set;
    FSAL_UNSET_MASK(left.valid_mask, ATTR_MODE);
    if (caller().uid != 0) FSAL_UNSET_MASK(left.valid_mask, ATTR_OWNER | ATTR_GROUP);
    return left;
}

fsal_status_t finish_creation(int directory_fd, const char* name, int child_fd, object_file_type_t type,
                              const fsal_attrlist& set) {
    if (set.valid_mask == 0) return fsal_ok();
    fsal_status_t status = set_attributes(type, child_fd, set);
    if (FSAL_IS_ERROR(status)) ::unlinkat(directory_fd, name, type == DIRECTORY ? AT_REMOVEDIR : 0);
    return status;
}

}  // namespace fabric::fsal
