// What all operations that make a new name have in common.
#pragma once

#include "fsal_fabric/caller.h"
#include "fsal_fabric/child.h"
#include "fsal_fabric/directory.h"
#include "fsal_fabric/name.h"

namespace fabric::fsal {

// The mode that `set` asks for, without the type.
mode_t mode_of(const fsal_attrlist& set);
// What is left of `set` after the file system took the mode at creation. As the kernel's NFS server does, owner and
// group are for root alone to give.
fsal_attrlist after_creation(const fsal_attrlist& set);
// As the caller: sets those on the child and removes the name again if that fails. `type` is the child's.
fsal_status_t finish_creation(int directory_fd, const char* name, int child_fd, object_file_type_t type,
                              const fsal_attrlist& set);

// Makes `name` in `parent` as the caller: `make(directory_fd)` does the system call, with the mode, and returns 0 or an
// errno. Then sets the rest of `set` and makes the Object.
template <typename F>
fsal_status_t create(fsal_obj_handle* parent, const char* name, object_file_type_t type, const fsal_attrlist& set,
                     fsal_obj_handle** made, fsal_attrlist* attributes, F&& make) {
    fsal_attrlist left = after_creation(set);
    *made = nullptr;
    if (int error = check_name(name)) return to_fsal_errno(error);
    Result<Directory> directory = open_directory(from(parent));
    if (!directory.ok()) return to_fsal(directory.status());
    UniqueFd child;
    fsal_status_t status = run_as_caller_setting(mode_of(set), [&]() -> fsal_status_t {
        if (int error = make(directory->get())) return to_fsal_errno(error);
        child.reset(::openat(directory->get(), name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
        if (!child) return to_fsal_errno(errno);
        return finish_creation(directory->get(), name, child.get(), type, left);
    });
    if (FSAL_IS_ERROR(status)) return status;
    from(parent).note_change();
    ask_for_acl_too(attributes);
    Result<Object*> object = make_child(from(parent), child.get(), attributes);
    if (!object.ok()) return to_fsal(object.status());
    *made = *object;
    return fsal_ok();
}

}  // namespace fabric::fsal
