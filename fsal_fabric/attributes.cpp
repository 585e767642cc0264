#include "fsal_fabric/attributes.h"

#include <sys/sysmacros.h>

#include <algorithm>

#include "common/fs/stat.h"
#include "fsal_fabric/acl.h"
#include "fsal_fabric/data/write_back.h"
#include "fsal_fabric/status.h"

namespace fabric::fsal {
namespace {

timespec time_of(const statx_timestamp& time) { return {.tv_sec = time.tv_sec, .tv_nsec = time.tv_nsec}; }

uint64_t nanoseconds(const statx_timestamp& time) {
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

// The kernel does not tell user space its own change counter. Both times count: some file systems change only one.
uint64_t change_of(const struct statx& status) {
    return std::max(nanoseconds(status.stx_ctime), nanoseconds(status.stx_mtime));
}

void copy(const Object& object, const struct statx& status, fsal_attrlist& list) {
    list.type = type_of(static_cast<mode_t>(status.stx_mode));
    list.filesize = status.stx_size;
    list.fsid = object.fsid;
    list.fileid = status.stx_ino;
    list.mode = status.stx_mode & 07777;
    list.numlinks = status.stx_nlink;
    list.owner = status.stx_uid;
    list.group = status.stx_gid;
    list.rawdev = {.major = status.stx_rdev_major, .minor = status.stx_rdev_minor};
    list.atime = time_of(status.stx_atime);
    list.ctime = time_of(status.stx_ctime);
    list.mtime = visible_mtime(object).value_or(time_of(status.stx_mtime));
    list.spaceused = status.stx_blocks * 512;
    list.change = change_of(status) + object.changes.load(std::memory_order_relaxed);
    list.valid_mask |= ATTRS_POSIX;
    if (status.stx_mask & STATX_BTIME) {
        list.creation = time_of(status.stx_btime);
        list.valid_mask |= ATTR_CREATION;
    }
}

Result<fsal_acl_t*> current_acl(const Object& object, int fd, const struct statx& status) {
    if (object.no_acl.holds_for(status)) return nullptr;
    Result<fsal_acl_t*> acl = read_acl(fd, status);
    if (acl.ok() && *acl == nullptr && object.filesystem->is_local()) object.no_acl.remember(status);
    return acl;
}

statx_timestamp time_from(const timespec& time) {
    statx_timestamp made{};
    made.tv_sec = time.tv_sec;
    made.tv_nsec = static_cast<uint32_t>(time.tv_nsec);
    return made;
}

struct statx statx_from(const struct stat& status) {
    struct statx made {};
    made.stx_mask = STATX_BASIC_STATS;
    made.stx_mode = static_cast<uint16_t>(status.st_mode);
    made.stx_size = static_cast<uint64_t>(status.st_size);
    made.stx_ino = status.st_ino;
    made.stx_nlink = static_cast<uint32_t>(status.st_nlink);
    made.stx_uid = status.st_uid;
    made.stx_gid = status.st_gid;
    made.stx_blocks = static_cast<uint64_t>(status.st_blocks);
    made.stx_blksize = static_cast<uint32_t>(status.st_blksize);
    made.stx_rdev_major = major(status.st_rdev);
    made.stx_rdev_minor = minor(status.st_rdev);
    made.stx_dev_major = major(status.st_dev);
    made.stx_dev_minor = minor(status.st_dev);
    made.stx_atime = time_from(status.st_atim);
    made.stx_mtime = time_from(status.st_mtim);
    made.stx_ctime = time_from(status.st_ctim);
    return made;
}

}  // namespace

Result<struct statx> stat_again(const Object& object, int fd) {
    Result<struct stat> status = fs::stat_of(fd);
    if (!status.ok()) return status.status();
    struct statx made = statx_from(*status);
    if (object.tells_created) {
        made.stx_mask |= STATX_BTIME;
        made.stx_btime = object.created;
    }
    return made;
}

Result<struct statx> stat_descriptor(int fd) {
    struct statx status;
    if (::statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &status) != 0) return Status::from_errno(errno);
    return status;
}

dev_t device_of(const struct statx& status) { return makedev(status.stx_dev_major, status.stx_dev_minor); }

object_file_type_t type_of(mode_t mode) {
    switch (mode & S_IFMT) {
        case S_IFREG:
            return REGULAR_FILE;
        case S_IFDIR:
            return DIRECTORY;
        case S_IFLNK:
            return SYMBOLIC_LINK;
        case S_IFCHR:
            return CHARACTER_FILE;
        case S_IFBLK:
            return BLOCK_FILE;
        case S_IFIFO:
            return FIFO_FILE;
        case S_IFSOCK:
            return SOCKET_FILE;
        default:
            return NO_FILE_TYPE;
    }
}

fsal_status_t fill_attributes(const Object& object, int fd, const struct statx& status, fsal_attrlist* list) {
    list->supported = supported_attributes;
    copy(object, status, *list);
    list->valid_mask |= ATTR4_XATTR;
    if (!FSAL_TEST_MASK(list->request_mask, ATTR_ACL)) return fsal_ok();
    Result<fsal_acl_t*> acl = current_acl(object, fd, status);
    if (acl.ok()) {
        list->acl = *acl;
        list->valid_mask |= ATTR_ACL;
        return fsal_ok();
    }
    if (!FSAL_TEST_MASK(list->request_mask, ATTR_RDATTR_ERR)) return to_fsal(acl.status());
    list->valid_mask = ATTR_RDATTR_ERR;
    return fsal_ok();
}

fsal_status_t fetch_attributes(const Object& object, int fd, fsal_attrlist* list) {
    Result<struct statx> status = stat_again(object, fd);
    if (status.ok()) return fill_attributes(object, fd, *status, list);
    if (FSAL_TEST_MASK(list->request_mask, ATTR_RDATTR_ERR)) list->valid_mask = ATTR_RDATTR_ERR;
    return to_fsal(status.status());
}

}  // namespace fabric::fsal
