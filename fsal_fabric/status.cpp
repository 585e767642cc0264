#include "fsal_fabric/status.h"

namespace fabric::fsal {
namespace {

fsal_errors_t major_of(int error) {
    switch (error) {
        case 0:
            return ERR_FSAL_NO_ERROR;
        case EPERM:
            return ERR_FSAL_PERM;
        case ENOENT:
            return ERR_FSAL_NOENT;
        case ENXIO:
            return ERR_FSAL_NXIO;
        case ENODEV:
            return ERR_FSAL_NXIO;
        case EACCES:
            return ERR_FSAL_ACCESS;
        case EFAULT:
            return ERR_FSAL_FAULT;
        case EEXIST:
            return ERR_FSAL_EXIST;
        case EXDEV:
            return ERR_FSAL_XDEV;
        case ENOTDIR:
            return ERR_FSAL_NOTDIR;
        case EISDIR:
            return ERR_FSAL_ISDIR;
        case EINVAL:
            return ERR_FSAL_INVAL;
        case ELOOP:
            return ERR_FSAL_SYMLINK;
        case EFBIG:
            return ERR_FSAL_FBIG;
        case ENOSPC:
            return ERR_FSAL_NOSPC;
        case EROFS:
            return ERR_FSAL_ROFS;
        case EMLINK:
            return ERR_FSAL_MLINK;
        case EDQUOT:
            return ERR_FSAL_DQUOT;
        case ENODATA:
            return ERR_FSAL_NO_DATA;
        case ENAMETOOLONG:
            return ERR_FSAL_NAMETOOLONG;
        case ENOTEMPTY:
            return ERR_FSAL_NOTEMPTY;
        case ESTALE:
            return ERR_FSAL_STALE;
        case EBADF:
            return ERR_FSAL_NOT_OPENED;
        case EOPNOTSUPP:
            return ERR_FSAL_NOTSUPP;
        case ENOSYS:
            return ERR_FSAL_NOTSUPP;
        case ENOTTY:
            return ERR_FSAL_NOTSUPP;
        case EDEADLK:
            return ERR_FSAL_DEADLOCK;
        case EOVERFLOW:
            return ERR_FSAL_OVERFLOW;
        // Short of something that comes back: the client is told to ask again (JUKEBOX in NFSv3, DELAY in NFSv4).
        case EAGAIN:
        case EINTR:
        case ENOMEM:
        case ENOBUFS:
        case EMFILE:
        case ENFILE:
        case ETIMEDOUT:
            return ERR_FSAL_DELAY;
        // In use by the server itself or by someone beside it, e.g. a mount point that is to be removed.
        case EBUSY:
            return ERR_FSAL_FILE_OPEN;
        default:
            return ERR_FSAL_IO;
    }
}

}  // namespace

fsal_status_t to_fsal_errno(int error) { return fsalstat(major_of(error), error); }

fsal_status_t to_fsal(const Status& status) {
    if (status.ok()) return fsal_ok();
    if (status.code() == Code::unavailable || status.code() == Code::timeout) {
        return fsalstat(ERR_FSAL_DELAY, status.errno_value());
    }
    return to_fsal_errno(status.errno_value());
}

}  // namespace fabric::fsal
