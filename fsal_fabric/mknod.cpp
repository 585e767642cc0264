#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "fsal_fabric/create.h"
#include "fsal_fabric/ops.h"

namespace fabric::fsal {
namespace {

mode_t format_of(object_file_type_t type) {
    switch (type) {
        case BLOCK_FILE:
            return S_IFBLK;
        case CHARACTER_FILE:
            return S_IFCHR;
        case FIFO_FILE:
            return S_IFIFO;
        case SOCKET_FILE:
            return S_IFSOCK;
        default:
            return 0;
    }
}

}  // namespace

fsal_status_t mknod(fsal_obj_handle* directory, const char* name, object_file_type_t type, fsal_attrlist* set,
                    fsal_obj_handle** made, fsal_attrlist* attributes, fsal_attrlist*, fsal_attrlist*) {
    *made = nullptr;
    mode_t format = format_of(type);
    if (format == 0) return to_fsal_errno(EINVAL);
    dev_t device = 0;
    if (type == BLOCK_FILE || type == CHARACTER_FILE) {
        if (!FSAL_TEST_MASK(set->valid_mask, ATTR_RAWDEV)) return to_fsal_errno(EINVAL);
        device = makedev(static_cast<unsigned>(set->rawdev.major), static_cast<unsigned>(set->rawdev.minor));
    }
    return create(directory, name, type, *set, made, attributes,
                  [&](int fd) { return ::mknodat(fd, name, format | mode_of(*set), device) == 0 ? 0 : errno; });
}

}  // namespace fabric::fsal
