// fstat(2) without the copy of an empty path that glibc's fstat has the kernel make (newfstatat; before Linux 6.11 that
// is most of its cost).
#pragma once

#include <errno.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/result.h"

namespace fabric::fs {

// Any descriptor, O_PATH too. Any thread.
inline Result<struct stat> stat_of(int fd) {
    struct stat status;
    if (::syscall(SYS_fstat, fd, &status) != 0) return Status::from_errno(errno);
    return status;
}

}  // namespace fabric::fs
