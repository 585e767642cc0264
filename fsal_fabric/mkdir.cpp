#include <sys/stat.h>

#include "fsal_fabric/create.h"
#include "fsal_fabric/ops.h"

namespace fabric::fsal {

fsal_status_t mkdir(fsal_obj_handle* directory, const char* name, fsal_attrlist* set, fsal_obj_handle** made,
                    fsal_attrlist* attributes, fsal_attrlist*, fsal_attrlist*) {
    return create(directory, name, DIRECTORY, *set, made, attributes,
                  [&](int fd) { return ::mkdirat(fd, name, mode_of(*set)) == 0 ? 0 : errno; });
}

}  // namespace fabric::fsal
