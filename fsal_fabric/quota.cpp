// Quotas for the RQUOTA protocol. Limits themselves are kept by the file system, which refuses the write.
#include <sys/quota.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "fsal_fabric/attributes.h"
#include "fsal_fabric/caller.h"
#include "fsal_fabric/export.h"
#include "fsal_fabric/module.h"
#include "fsal_fabric/ops.h"

namespace fabric::fsal {
namespace {

constexpr uint64_t block = 1024;  // bytes; what quotactl(2) counts limits in

// quotactl_fd(2), Linux 5.14: no block device has to be found.
int quota_call(const fs::Filesystem& filesystem, int command, int type, int id, dqblk& data) {
#ifndef SYS_quotactl_fd
    constexpr long SYS_quotactl_fd = 443;
#endif
    return ::syscall(SYS_quotactl_fd, filesystem.root_fd(), QCMD(command, type), id, &data) == 0 ? 0 : errno;
}

// The path may lie on a file system that is mounted below the root.
fs::FilesystemPtr filesystem_of(Export& self, const char* path) {
    struct statx status;
    if (path && ::statx(AT_FDCWD, path, AT_NO_AUTOMOUNT, STATX_TYPE, &status) == 0) {
        if (fs::FilesystemPtr found = module().filesystems.find(device_of(status))) {
            if (fs::FilesystemPtr ours = self.find_filesystem(found->uuid())) return ours;
        }
    }
    return self.root_filesystem;
}

// One's own, one's groups', or all for root: as quotactl(2) has it.
bool may_ask(int type, int id) {
    identity::Credentials who = caller();
    if (who.uid == 0) return true;
    if (type == USRQUOTA) return who.uid == static_cast<uid_t>(id);
    gid_t gid = static_cast<gid_t>(id);
    return type == GRPQUOTA && (who.gid == gid || std::ranges::find(who.groups, gid) != who.groups.end());
}

uint64_t seconds_left(uint64_t until) {
    auto now = static_cast<uint64_t>(std::time(nullptr));
    return until > now ? until - now : 0;
}

}  // namespace

fsal_status_t get_quota(fsal_export* handle, const char* path, int type, int id, fsal_quota_t* quota) {
    if (!may_ask(type, id)) return to_fsal_errno(EPERM);
    dqblk data{};
    if (int error = quota_call(*filesystem_of(from(handle), path), Q_GETQUOTA, type, id, data)) {
        return error == ESRCH ? fsalstat(ERR_FSAL_NO_QUOTA, error) : to_fsal_errno(error);
    }
    *quota = {};
    quota->bhardlimit = data.dqb_bhardlimit;
    quota->bsoftlimit = data.dqb_bsoftlimit;
    quota->curblocks = (data.dqb_curspace + block - 1) / block;
    quota->fhardlimit = data.dqb_ihardlimit;
    quota->fsoftlimit = data.dqb_isoftlimit;
    quota->curfiles = data.dqb_curinodes;
    quota->btimeleft = seconds_left(data.dqb_btime);
    quota->ftimeleft = seconds_left(data.dqb_itime);
    quota->bsize = block;
    return fsal_ok();
}

fsal_status_t set_quota(fsal_export* handle, const char* path, int type, int id, fsal_quota_t* quota,
                        fsal_quota_t* result) {
    if (caller().uid != 0) return to_fsal_errno(EPERM);
    dqblk data{};
    data.dqb_bhardlimit = quota->bhardlimit;
    data.dqb_bsoftlimit = quota->bsoftlimit;
    data.dqb_ihardlimit = quota->fhardlimit;
    data.dqb_isoftlimit = quota->fsoftlimit;
    data.dqb_valid = QIF_LIMITS;
    if (int error = quota_call(*filesystem_of(from(handle), path), Q_SETQUOTA, type, id, data)) {
        return to_fsal_errno(error);
    }
    return result ? get_quota(handle, path, type, id, result) : fsal_ok();
}

}  // namespace fabric::fsal
