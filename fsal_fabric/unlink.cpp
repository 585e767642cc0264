#include <unistd.h>

#include "fsal_fabric/caller.h"
#include "fsal_fabric/data/write_back.h"
#include "fsal_fabric/directory.h"
#include "fsal_fabric/name.h"
#include "fsal_fabric/object.h"
#include "fsal_fabric/ops.h"

namespace fabric::fsal {

fsal_status_t unlink(fsal_obj_handle* directory, fsal_obj_handle* object, const char* name, fsal_attrlist*,
                     fsal_attrlist*) {
    if (int error = check_name(name)) return to_fsal_errno(error);
    Result<Directory> parent = open_directory(from(directory));
    if (!parent.ok()) return to_fsal(parent.status());
    int flags = object->type == DIRECTORY ? AT_REMOVEDIR : 0;
    fsal_status_t status =
        run_as_caller([&] { return to_fsal_errno(::unlinkat(parent->get(), name, flags) == 0 ? 0 : errno); });
    if (FSAL_IS_SUCCESS(status)) {
        from(directory).note_change();
        from(object).note_change();
        note_unlinked(from(object));
    }
    return status;
}

}  // namespace fabric::fsal
