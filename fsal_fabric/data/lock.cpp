// Byte-range locks as open-file-description locks (fcntl(2), F_OFD_SETLK): each lock owner's state has its own open
// file description, so the locks hold between NFS clients and against other processes on the server.
#include <fcntl.h>

#include "fsal_fabric/data/descriptor.h"
#include "fsal_fabric/data/ops.h"

namespace fabric::fsal {
namespace {

// NFS has unsigned 64-bit ranges, the kernel signed ones: what reaches past its end is locked to the end of the file
// (length 0); what begins there cannot be locked at all.
bool set_range(const fsal_lock_param_t& wanted, struct flock& lock) {
    if (wanted.lock_start > INT64_MAX) return false;
    lock.l_whence = SEEK_SET;
    lock.l_start = static_cast<off_t>(wanted.lock_start);
    bool to_the_end = wanted.lock_length > INT64_MAX - wanted.lock_start;
    lock.l_len = to_the_end ? 0 : static_cast<off_t>(wanted.lock_length);
    return true;
}

void report(fsal_lock_param_t* to, const struct flock& lock) {
    if (to == nullptr) return;
    to->lock_start = 0;
    to->lock_length = 0;
    to->lock_type = FSAL_NO_LOCK;
    if (lock.l_type == F_UNLCK) return;
    to->lock_start = static_cast<uint64_t>(lock.l_start);
    to->lock_length = static_cast<uint64_t>(lock.l_len);
    to->lock_type = lock.l_type == F_RDLCK ? FSAL_LOCK_R : FSAL_LOCK_W;
}

// Ganesha reads ERR_FSAL_DELAY as "another holds a conflicting lock" (SAL/state_misc.c).
fsal_status_t refused(int fd, struct flock lock, fsal_lock_param_t* conflicting) {
    if (conflicting != nullptr && fcntl(fd, F_OFD_GETLK, &lock) == 0) report(conflicting, lock);
    return fsalstat(ERR_FSAL_DELAY, EAGAIN);
}

}  // namespace

fsal_status_t lock_op2(fsal_obj_handle* handle, state_t* state, void*, fsal_lock_op_t operation,
                       fsal_lock_param_t* wanted, fsal_lock_param_t* conflicting) {
    bool test = operation == FSAL_OP_LOCKT;
    bool lock = operation == FSAL_OP_LOCK;
    if (!test && !lock && operation != FSAL_OP_UNLOCK) return fsalstat(ERR_FSAL_NOTSUPP, ENOTSUP);
    if (!test && state == nullptr) return fsalstat(ERR_FSAL_INVAL, EINVAL);
    if (wanted->lock_type != FSAL_LOCK_R && wanted->lock_type != FSAL_LOCK_W)
        return fsalstat(ERR_FSAL_NOTSUPP, ENOTSUP);

    struct flock request {};
    if (!set_range(*wanted, request)) return fsalstat(ERR_FSAL_BAD_RANGE, ERANGE);
    request.l_type = static_cast<short>(wanted->lock_type == FSAL_LOCK_R ? F_RDLCK : F_WRLCK);
    fsal_openflags_t flags = FSAL_O_ANY;
    if (lock) flags = wanted->lock_type == FSAL_LOCK_R ? FSAL_O_READ : FSAL_O_WRITE;
    if (operation == FSAL_OP_UNLOCK) request.l_type = F_UNLCK;

    FileIo io;
    fsal_status_t status = io.start(from(handle), state, flags, test, true);
    if (FSAL_IS_ERROR(status)) return status;
    if (fcntl(io.fd(), test ? F_OFD_GETLK : F_OFD_SETLK, &request) != 0)
        return errno == EAGAIN || errno == EACCES ? refused(io.fd(), request, conflicting) : to_fsal_errno(errno);
    if (!test) request.l_type = F_UNLCK;
    report(conflicting, request);
    return fsal_ok();
}

}  // namespace fabric::fsal
