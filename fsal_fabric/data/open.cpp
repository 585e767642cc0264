// Opening a file that is known: by its object, for a state or for the object's own descriptor.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fsal_fabric/attributes.h"
#include "fsal_fabric/caller.h"
#include "fsal_fabric/data/create.h"
#include "fsal_fabric/data/descriptor.h"
#include "fsal_fabric/data/ops.h"
#include "fsal_fabric/data/verifier.h"

namespace fabric::fsal {
namespace {

// Holds off I/O on the descriptor while it is opened anew or closed.
class FdWork {
  public:
    explicit FdWork(fsal_fd& base) : base_(base) { fsal_start_fd_work_no_reclaim(&base_); }
    ~FdWork() { fsal_complete_fd_work(&base_); }
    FdWork(const FdWork&) = delete;

  private:
    fsal_fd& base_;
};

// The object's share counters, when a state takes part in them. The one place where it is taken inside of FdWork.
class ShareLock {
  public:
    ShareLock(Object& object, bool needed) : object_(needed ? &object : nullptr) {
        if (object_ != nullptr) PTHREAD_RWLOCK_wrlock(&object_->obj_lock);
    }
    ~ShareLock() {
        if (object_ != nullptr) PTHREAD_RWLOCK_unlock(&object_->obj_lock);
    }
    ShareLock(const ShareLock&) = delete;

  private:
    Object* object_;
};

fsal_status_t check_exclusive(Object& object, const char* verifier) {
    return check_verifier(&object, const_cast<char*>(verifier)) ? fsal_ok() : fsalstat(ERR_FSAL_EXIST, EEXIST);
}

// Ganesha's cache opens an existing file for a create with size 0 before it checks permissions, and a truncated file
// cannot be put back: so the check is made here first.
fsal_status_t check_truncate(Object& object) {
    Result<UniqueFd> file = object.open(O_PATH | O_CLOEXEC);
    if (!file.ok()) return to_fsal(file.status());
    struct stat status {};
    if (fstat(file->get(), &status) != 0) return to_fsal_errno(errno);
    if (status.st_uid == op_ctx->creds.caller_uid) return fsal_ok();
    return run_as_caller([fd = file->get()] {
        return to_fsal_errno(faccessat(fd, "", W_OK, AT_EMPTY_PATH | AT_EACCESS) == 0 ? 0 : errno);
    });
}

fsal_status_t replace_descriptor(Object& object, Fd& descriptor, fsal_openflags_t flags) {
    bool counted = descriptor.fd < 0 && descriptor.base.fd_type == FSAL_FD_GLOBAL;
    fsal_status_t status = open_descriptor(object, descriptor, flags);
    if (FSAL_IS_ERROR(status)) return status;
    if (counted)
        insert_fd_lru(&descriptor.base);
    else
        bump_fd_lru(&descriptor.base);
    return status;
}

}  // namespace

bool check_verifier(fsal_obj_handle* handle, fsal_verifier_t verifier) {
    Result<UniqueFd> file = from(handle).open(O_PATH | O_CLOEXEC);
    if (!file.ok()) return false;
    Result<struct statx> status = stat_descriptor(file->get());
    return status.ok() && has_verifier(*status, verifier);
}

fsal_status_t open_object(Object& object, state_t* state, fsal_openflags_t flags, fsal_create_mode mode,
                          const char* verifier, fsal_attrlist* attributes) {
    if (mode >= FSAL_EXCLUSIVE)
        if (fsal_status_t status = check_exclusive(object, verifier); FSAL_IS_ERROR(status)) return status;
    if ((flags & FSAL_O_TRUNC) != 0)
        if (fsal_status_t status = check_truncate(object); FSAL_IS_ERROR(status)) return status;

    Fd& descriptor = state != nullptr ? state_descriptor(state) : object.file.global;
    FdWork work(descriptor.base);
    ShareLock lock(object, state != nullptr);
    fsal_openflags_t old_flags = descriptor.base.openflags;
    if (state != nullptr) {
        fsal_status_t status = check_share_conflict(&object.file.share, flags, false);
        if (FSAL_IS_ERROR(status)) return status;
    }
    bool same = FSAL_O_NFS_FLAGS(flags) == FSAL_O_NFS_FLAGS(old_flags);
    if (!same || (flags & FSAL_O_TRUNC) != 0 || mode != FSAL_NO_CREATE) {
        fsal_status_t status = replace_descriptor(object, descriptor, flags);
        if (FSAL_IS_ERROR(status)) return status;
    }
    if (state != nullptr) update_share_counters(&object.file.share, old_flags, flags);
    return attributes != nullptr ? fetch_attributes(object, descriptor.fd, attributes) : fsal_ok();
}

fsal_status_t reopen2(fsal_obj_handle* handle, state_t* state, fsal_openflags_t flags) {
    return open_object(from(handle), state, flags, FSAL_NO_CREATE, nullptr, nullptr);
}

fsal_status_t open2(fsal_obj_handle* handle, state_t* state, fsal_openflags_t flags, fsal_create_mode mode,
                    const char* name, fsal_attrlist* set, fsal_verifier_t verifier, fsal_obj_handle** opened,
                    fsal_attrlist* attributes, bool* caller_checks, fsal_attrlist*, fsal_attrlist*) {
    Object& object = from(handle);
    if (name == nullptr) {
        fsal_status_t status = open_object(object, state, flags, mode, verifier, attributes);
        *caller_checks = FSAL_IS_SUCCESS(status);
        return status;
    }
    OpenByName call{object, name, flags, mode, verifier, set, attributes};
    fsal_status_t status = open_by_name(call, state);
    *caller_checks = FSAL_IS_SUCCESS(status) && call.caller_checks;
    if (FSAL_IS_SUCCESS(status)) *opened = call.object;
    return status;
}

}  // namespace fabric::fsal
