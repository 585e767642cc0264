// Who an operation is done for, and doing it as them.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include "common/identity/identity.h"
#include "fsal_fabric/ganesha.h"
#include "fsal_fabric/status.h"

namespace fabric::fsal {

// The caller of the operation in progress, after squashing. Borrowed from op_ctx.
identity::Credentials caller();
// Whether our own identity is the caller's as far as a file system can tell: root with root's group, unsquashed.
bool caller_is_us(const identity::Credentials& who);
identity::Pool& identity_pool();

template <typename F>
fsal_status_t run_on_identity_thread(const identity::Credentials& who, F&& call) {
    Result<fsal_status_t> result = identity_pool().run_as(who, call);
    return result.ok() ? *result : to_fsal(result.status());
}

// Runs `call` (which returns a fsal_status_t) with the caller's identity: here when that is our own, else on an
// identity thread, while this one waits. Inside, no handle can be opened: take descriptors of the objects first (O_PATH
// is enough) and use the *at calls.
template <typename F>
fsal_status_t run_as_caller(F&& call) {
    identity::Credentials who = caller();
    return caller_is_us(who) ? call() : run_on_identity_thread(who, call);
}

// The same for what sets a mode: to keep the set-group-id bit for a group that it is not in, even root needs
// CAP_FSETID, which only the identity threads have (module.cpp).
template <typename F>
fsal_status_t run_as_caller_setting(mode_t mode, F&& call) {
    return mode & S_ISGID ? run_on_identity_thread(caller(), call) : run_as_caller(call);
}

// Whether the caller is root and the file has set-id bits, which a write or truncation by anyone else takes away.
bool keeps_set_id_bits(int fd);

// Does `call`, which writes to or truncates the open file `fd` and returns 0 or an errno, so that its set-user-id and
// set-group-id bits stay when root does it. Our own threads are without CAP_FSETID, so that they go for everybody else.
template <typename F>
int write_as_caller(int fd, F&& call) {
    if (!keeps_set_id_bits(fd)) return call();
    int error = 0;
    fsal_status_t status = run_on_identity_thread(caller(), [&] {
        error = call();
        return fsal_ok();
    });
    return FSAL_IS_ERROR(status) ? status.minor : error;
}

inline int truncate_as_caller(int fd, uint64_t size) {
    return write_as_caller(fd, [=] {
        int result;
        do {
            result = ::ftruncate(fd, static_cast<off_t>(size));
        } while (result != 0 && errno == EINTR);
        return result == 0 ? 0 : errno;
    });
}

}  // namespace fabric::fsal
