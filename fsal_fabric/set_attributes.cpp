#include <sys/syscall.h>
#include <unistd.h>

#include "fsal_fabric/acl.h"
#include "fsal_fabric/attributes.h"
#include "fsal_fabric/descriptor_path.h"
#include "fsal_fabric/status.h"

namespace fabric::fsal {
namespace {

// fchmodat2(2), Linux 6.6; before it only a path reaches a descriptor opened with O_PATH.
int change_mode(int fd, mode_t mode) {
#ifndef SYS_fchmodat2
    constexpr long SYS_fchmodat2 = 452;
#endif
    if (::syscall(SYS_fchmodat2, fd, "", mode, AT_EMPTY_PATH) == 0) return 0;
    if (errno != ENOSYS && errno != EINVAL) return errno;
    return ::chmod(DescriptorPath(fd).c_str(), mode) == 0 ? 0 : errno;
}

bool sets(const fsal_attrlist& list, attrmask_t mask) { return FSAL_TEST_MASK(list.valid_mask, mask) != 0; }

int change_owner(int fd, const fsal_attrlist& list) {
    uid_t uid = sets(list, ATTR_OWNER) ? static_cast<uid_t>(list.owner) : static_cast<uid_t>(-1);
    gid_t gid = sets(list, ATTR_GROUP) ? static_cast<gid_t>(list.group) : static_cast<gid_t>(-1);
    return ::fchownat(fd, "", uid, gid, AT_EMPTY_PATH) == 0 ? 0 : errno;
}

timespec time_to_set(const fsal_attrlist& list, attrmask_t given, attrmask_t now, const timespec& time) {
    if (sets(list, now)) return {.tv_sec = 0, .tv_nsec = UTIME_NOW};
    if (sets(list, given)) return time;
    return {.tv_sec = 0, .tv_nsec = UTIME_OMIT};
}

bool sound(const timespec& time) { return time.tv_nsec >= 0 && time.tv_nsec <= 999'999'999; }

int change_times(int fd, const fsal_attrlist& list) {
    // Other numbers could mean UTIME_NOW or UTIME_OMIT to the kernel.
    if (sets(list, ATTR_ATIME) && !sound(list.atime)) return EINVAL;
    if (sets(list, ATTR_MTIME) && !sound(list.mtime)) return EINVAL;
    const timespec times[2] = {time_to_set(list, ATTR_ATIME, ATTR_ATIME_SERVER, list.atime),
                               time_to_set(list, ATTR_MTIME, ATTR_MTIME_SERVER, list.mtime)};
    return ::utimensat(fd, "", times, AT_EMPTY_PATH) == 0 ? 0 : errno;
}

}  // namespace

// Owner before mode, since a change of owner takes the set-id bits away; where both come at once the bits stay away, as
// with the kernel's server. The times last, for everything else changes them.
fsal_status_t set_attributes(object_file_type_t type, int fd, const fsal_attrlist& list) {
    bool new_owner = sets(list, ATTR_OWNER | ATTR_GROUP);
    if (new_owner) {
        if (int error = change_owner(fd, list)) return to_fsal_errno(error);
    }
    // A symbolic link's mode means nothing and cannot be changed: ignored, as the kernel's server does.
    if (sets(list, ATTR_MODE) && type != SYMBOLIC_LINK) {
        mode_t mode = list.mode & 07777;
        if (new_owner && type != DIRECTORY) {
            mode &= ~static_cast<mode_t>(S_ISUID);
            if (mode & S_IXGRP) mode &= ~static_cast<mode_t>(S_ISGID);
        }
        if (int error = change_mode(fd, mode)) return to_fsal_errno(error);
    }
    if (sets(list, ATTR_ACL)) {
        if (Status status = write_acl(type, fd, list.acl); !status.ok()) return to_fsal(status);
    }
    if (sets(list, ATTRS_SET_TIME)) {
        if (int error = change_times(fd, list)) return to_fsal_errno(error);
    }
    return fsal_ok();
}

}  // namespace fabric::fsal
