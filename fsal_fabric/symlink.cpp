#include <unistd.h>

#include "fsal_fabric/create.h"
#include "fsal_fabric/ops.h"

namespace fabric::fsal {

fsal_status_t symlink(fsal_obj_handle* directory, const char* name, const char* target, fsal_attrlist* set,
                      fsal_obj_handle** made, fsal_attrlist* attributes, fsal_attrlist*, fsal_attrlist*) {
    return create(directory, name, SYMBOLIC_LINK, *set, made, attributes,
                  [&](int fd) { return ::symlinkat(target, fd, name) == 0 ? 0 : errno; });
}

}  // namespace fabric::fsal
