#include "fsal_fabric/child.h"
#include "fsal_fabric/directory.h"
#include "fsal_fabric/name.h"
#include "fsal_fabric/ops.h"
#include "fsal_fabric/status.h"

namespace fabric::fsal {

// The right to search the directory was checked above us, on its cached mode and ACL. The name is opened, not looked up
// twice, so that attributes and handle are of the same object whatever is renamed meanwhile.
fsal_status_t lookup(fsal_obj_handle* directory, const char* name, fsal_obj_handle** found, fsal_attrlist* attributes) {
    *found = nullptr;
    if (directory->type != DIRECTORY) return to_fsal_errno(ENOTDIR);
    if (int error = check_name(name)) return to_fsal_errno(error);
    Result<Directory> parent = open_directory(from(directory));
    if (!parent.ok()) return to_fsal(parent.status());
    UniqueFd fd(::openat(parent->get(), name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!fd) return to_fsal_errno(errno);
    ask_for_acl_too(attributes);
    Result<Object*> object = make_child(from(directory), fd.get(), attributes);
    if (!object.ok()) return to_fsal(object.status());
    *found = *object;
    return fsal_ok();
}

}  // namespace fabric::fsal
