#include "fsal_fabric/data/create.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fault.h"
#include "fsal_fabric/attributes.h"
#include "fsal_fabric/caller.h"
#include "fsal_fabric/child.h"
#include "fsal_fabric/create.h"
#include "fsal_fabric/data/descriptor.h"
#include "fsal_fabric/data/ops.h"
#include "fsal_fabric/data/relief.h"
#include "fsal_fabric/data/verifier.h"
#include "fsal_fabric/directory.h"

namespace fabric::fsal {
namespace {

// Between "there is no such file" and "there is one" another may make or remove it; then we look again, this often.
constexpr int most_races = 16;

// Makes the file with the caller's identity, so that its owner, its group (that of a set-group-ID folder), its access
// lists and the caller's right to make it are the kernel's business. EEXIST when there is one.
Result<UniqueFd> make_file(const OpenByName& call, int directory) {
    int flags = posix_flags(call.flags & ~FSAL_O_TRUNC) | O_CREAT | O_EXCL;
    mode_t mode = mode_of(*call.set);
    UniqueFd made;
    for (bool relieved = false;; relieved = true) {
        int error = fault::hit("backing.open");
        fsal_status_t status = run_as_caller_setting(mode, [&] {
            if (error == 0) made.reset(openat(directory, call.name, flags, mode));
            if (error == 0 && !made) error = errno;
            return to_fsal_errno(error);
        });
        if (made) return made;
        if (error == 0) error = status.minor != 0 ? status.minor : EACCES;  // the identity could not be taken
        bool out_of_descriptors = error == EMFILE || error == ENFILE;
        if (!out_of_descriptors || relieved || !relieve_descriptors()) return Status::from_errno(error, "create");
    }
}

// Only regular files are opened: to open a device or a FIFO could do anything.
fsal_status_t check_regular(const struct statx& status) {
    if (S_ISDIR(status.stx_mode)) return fsalstat(ERR_FSAL_ISDIR, EISDIR);
    return S_ISREG(status.stx_mode) ? fsal_ok() : fsalstat(ERR_FSAL_SYMLINK, ELOOP);
}

fsal_status_t open_existing(OpenByName& call, state_t* state, int directory) {
    if (call.mode == FSAL_GUARDED) return fsalstat(ERR_FSAL_EXIST, EEXIST);
    ask_for_acl_too(call.attributes);
    UniqueFd path;
    fsal_status_t status = run_as_caller([&] {
        path.reset(openat(directory, call.name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
        return to_fsal_errno(path ? 0 : errno);
    });
    if (FSAL_IS_ERROR(status)) return status;
    Result<struct statx> file = stat_descriptor(path.get());
    if (!file.ok()) return to_fsal(file.status());
    status = check_regular(*file);
    if (FSAL_IS_ERROR(status)) return call.mode >= FSAL_EXCLUSIVE ? fsalstat(ERR_FSAL_EXIST, EEXIST) : status;
    if (call.mode >= FSAL_EXCLUSIVE) {
        if (!has_verifier(*file, call.verifier)) return fsalstat(ERR_FSAL_EXIST, EEXIST);
        // The one who made it may go on, though the mode that it got may not allow opening it again.
        call.caller_checks = file->stx_uid != op_ctx->creds.caller_uid;
    }
    // The open changes none of the attributes, unless it empties the file.
    bool same = (call.flags & FSAL_O_TRUNC) == 0;
    Result<Object*> object = make_child(call.parent, path.get(), *file, same ? call.attributes : nullptr);
    if (!object.ok()) return to_fsal(object.status());
    status = open_object(**object, state, call.flags, FSAL_NO_CREATE, nullptr, same ? nullptr : call.attributes);
    if (FSAL_IS_ERROR(status))
        (*object)->obj_ops->release(*object);
    else
        call.object = *object;
    return status;
}

// What the create asked for beside the mode, which the file got when it was made. An exclusive create has its verifier
// where the times are.
fsal_status_t set_initial(const OpenByName& call, Object& object, int fd) {
    fsal_attrlist left = after_creation(*call.set);
    bool exclusive = call.mode >= FSAL_EXCLUSIVE;
    if (exclusive) FSAL_UNSET_MASK(left.valid_mask, ATTR_ATIME | ATTR_MTIME | ATTR_ATIME_SERVER | ATTR_MTIME_SERVER);
    if (FSAL_TEST_MASK(left.valid_mask, ATTR_SIZE)) {
        if (left.filesize > INT64_MAX) return fsalstat(ERR_FSAL_FBIG, EFBIG);
        Result<UniqueFd> writable = object.open(O_WRONLY | O_CLOEXEC);
        if (!writable.ok()) return to_fsal(writable.status());
        if (ftruncate(writable->get(), static_cast<off_t>(left.filesize)) != 0) return to_fsal_errno(errno);
        FSAL_UNSET_MASK(left.valid_mask, ATTR_SIZE);
    }
    if (left.valid_mask != 0) {
        fsal_status_t status = run_as_caller([&] { return set_attributes(REGULAR_FILE, fd, left); });
        if (FSAL_IS_ERROR(status)) return status;
    }
    if (!exclusive) return fsal_ok();
    return to_fsal_errno(futimens(fd, verifier_times(call.verifier).data()) == 0 ? 0 : errno);
}

// The new file's first descriptor goes to the state, or becomes the object's own. Nobody else knows the object yet, so
// no lock is needed.
void hand_over(Object& object, state_t* state, fsal_openflags_t flags, UniqueFd fd) {
    watch_descriptors(fd.get());
    Fd& descriptor = state != nullptr ? state_descriptor(state) : object.file.global;
    descriptor.fd = fd.release();
    descriptor.base.openflags = FSAL_O_NFS_FLAGS(flags);
    if (state == nullptr) insert_fd_lru(&descriptor.base);
    if (state != nullptr) update_share_counters_locked(&object, &object.file.share, FSAL_O_CLOSED, flags);
}

fsal_status_t finish_new(OpenByName& call, state_t* state, UniqueFd fd) {
    // Attributes of a file that is complete as it was made are read once.
    bool complete = call.mode < FSAL_EXCLUSIVE && after_creation(*call.set).valid_mask == 0;
    ask_for_acl_too(call.attributes);
    Result<Object*> made = make_child(call.parent, fd.get(), complete ? call.attributes : nullptr);
    if (!made.ok()) return to_fsal(made.status());
    Object& object = **made;
    call.parent.note_change();
    fsal_status_t status = set_initial(call, object, fd.get());
    if (FSAL_IS_SUCCESS(status) && call.attributes != nullptr && !complete)
        status = fetch_attributes(object, fd.get(), call.attributes);
    if (FSAL_IS_ERROR(status)) {
        object.obj_ops->release(&object);
        return status;
    }
    hand_over(object, state, call.flags, std::move(fd));
    call.object = &object;
    call.caller_checks = false;
    return status;
}

fsal_status_t create_or_open(OpenByName& call, state_t* state, int directory) {
    if (call.mode == FSAL_NO_CREATE) return open_existing(call, state, directory);
    for (int race = 0; race < most_races; ++race) {
        Result<UniqueFd> made = make_file(call, directory);
        if (made.ok()) {
            fsal_status_t status = finish_new(call, state, std::move(made).value());
            if (FSAL_IS_ERROR(status)) unlinkat(directory, call.name, 0);
            return status;
        }
        if (made.status().errno_value() != EEXIST) return to_fsal(made.status());
        fsal_status_t status = open_existing(call, state, directory);
        if (status.major != ERR_FSAL_NOENT) return status;
    }
    return fsalstat(ERR_FSAL_DELAY, EAGAIN);
}

}  // namespace

fsal_status_t open_by_name(OpenByName& call, state_t* state) {
    if (int error = check_name(call.name)) return to_fsal_errno(error);
    Result<Directory> directory = open_directory(call.parent);
    if (!directory.ok()) return to_fsal(directory.status());
    return create_or_open(call, state, directory->get());
}

}  // namespace fabric::fsal
