#include <unistd.h>

#include "fsal_fabric/caller.h"
#include "fsal_fabric/descriptor_path.h"
#include "fsal_fabric/directory.h"
#include "fsal_fabric/name.h"
#include "fsal_fabric/object.h"
#include "fsal_fabric/ops.h"

namespace fabric::fsal {

// By /proc, since linkat with AT_EMPTY_PATH wants CAP_DAC_READ_SEARCH, which a user's identity has not.
fsal_status_t link(fsal_obj_handle* object, fsal_obj_handle* directory, const char* name, fsal_attrlist*,
                   fsal_attrlist*) {
    if (int error = check_name(name)) return to_fsal_errno(error);
    if (from(object).filesystem != from(directory).filesystem) return to_fsal_errno(EXDEV);
    Result<UniqueFd> fd = from(object).open(O_PATH | O_NOFOLLOW);
    if (!fd.ok()) return to_fsal(fd.status());
    Result<Directory> parent = open_directory(from(directory));
    if (!parent.ok()) return to_fsal(parent.status());
    DescriptorPath path(fd->get());
    fsal_status_t status = run_as_caller([&] {
        bool done = ::linkat(AT_FDCWD, path.c_str(), parent->get(), name, AT_SYMLINK_FOLLOW) == 0;
        return to_fsal_errno(done ? 0 : errno);
    });
    if (FSAL_IS_SUCCESS(status)) {
        from(directory).note_change();
        from(object).note_change();
    }
    return status;
}

}  // namespace fabric::fsal
