#include <fcntl.h>
#include <sys/stat.h>

#include <cstdio>

#include "fsal_fabric/caller.h"
#include "fsal_fabric/directory.h"
#include "fsal_fabric/name.h"
#include "fsal_fabric/object.h"
#include "fsal_fabric/ops.h"

namespace fabric::fsal {
namespace {

// Two names of one file: rename(2) does nothing then, and the folders' change attributes are not to tell otherwise
// (RFC 8881 §18.26.3).
bool same_file(int old_directory, const char* old_name, int new_directory, const char* new_name) {
    struct stat old_file {};
    struct stat new_file {};
    return fstatat(old_directory, old_name, &old_file, AT_SYMLINK_NOFOLLOW) == 0 &&
           fstatat(new_directory, new_name, &new_file, AT_SYMLINK_NOFOLLOW) == 0 &&
           old_file.st_dev == new_file.st_dev && old_file.st_ino == new_file.st_ino;
}

}  // namespace

// A handle names the file, not its place, so nothing changes for those who hold it.
fsal_status_t rename(fsal_obj_handle* object, fsal_obj_handle* old_directory, const char* old_name,
                     fsal_obj_handle* new_directory, const char* new_name, fsal_attrlist*, fsal_attrlist*,
                     fsal_attrlist*, fsal_attrlist*) {
    if (int error = check_name(old_name)) return to_fsal_errno(error);
    if (int error = check_name(new_name)) return to_fsal_errno(error);
    if (from(old_directory).filesystem != from(new_directory).filesystem) return to_fsal_errno(EXDEV);
    Result<Directory> old_parent = open_directory(from(old_directory));
    if (!old_parent.ok()) return to_fsal(old_parent.status());
    Result<Directory> new_parent = open_directory(from(new_directory));
    if (!new_parent.ok()) return to_fsal(new_parent.status());
    bool nothing_to_do = same_file(old_parent->get(), old_name, new_parent->get(), new_name);
    fsal_status_t status = run_as_caller([&] {
        bool done = ::renameat(old_parent->get(), old_name, new_parent->get(), new_name) == 0;
        return to_fsal_errno(done ? 0 : errno);
    });
    if (FSAL_IS_ERROR(status) || nothing_to_do) return status;
    from(object).file.rule = FileData::rule_unknown;
    for (fsal_obj_handle* changed : {object, old_directory, new_directory}) from(changed).note_change();
    return status;
}

}  // namespace fabric::fsal
