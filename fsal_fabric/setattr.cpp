#include <unistd.h>

#include "fsal_fabric/attributes.h"
#include "fsal_fabric/caller.h"
#include "fsal_fabric/data/write_back.h"
#include "fsal_fabric/ops.h"
#include "fsal_fabric/status.h"

namespace fabric::fsal {
namespace {

// The right to change the size was checked above us: write permission, an open for writing, or ownership (RFC 7530
// §16.32). Through Ganesha's descriptors, so that share reservations hold.
fsal_status_t set_size(Object& object, bool bypass, state_t* state, uint64_t size) {
    if (object.type == DIRECTORY) return to_fsal_errno(EISDIR);
    if (object.type != REGULAR_FILE) return to_fsal_errno(EINVAL);
    if (size > INT64_MAX) return to_fsal_errno(EFBIG);
    Fd temporary{};
    init_fsal_fd(&temporary.base, FSAL_FD_TEMP, op_ctx->fsal_export);
    temporary.fd = -1;
    temporary.direct_fd = -1;
    fsal_fd* found = nullptr;
    fsal_status_t status = fsal_start_io(&found, &object, &object.file.global.base, &temporary.base, state,
                                         FSAL_O_WRITE, false, nullptr, bypass, &object.file.share);
    if (FSAL_IS_ERROR(status)) return status;
    status = to_fsal_errno(truncate_object(object, Fd::from(found).fd, size));
    fsal_status_t completed = fsal_complete_io(&object, found);
    if (FSAL_IS_SUCCESS(status)) status = completed;
    // A stateless operation took a share reservation for its duration (fsal_start_global_io).
    if (!state) update_share_counters_locked(&object, &object.file.share, FSAL_O_WRITE, FSAL_O_CLOSED);
    return status;
}

}  // namespace

fsal_status_t setattr2(fsal_obj_handle* handle, bool bypass, state_t* state, fsal_attrlist* attributes) {
    Object& object = from(handle);
    if (FSAL_TEST_MASK(attributes->valid_mask, ATTR_SIZE)) {
        fsal_status_t status = set_size(object, bypass, state, attributes->filesize);
        if (FSAL_IS_ERROR(status)) return status;
        object.note_change();
    }
    fsal_attrlist rest = *attributes;
    FSAL_UNSET_MASK(rest.valid_mask, ATTR_SIZE);
    if (rest.valid_mask == 0) return fsal_ok();
    Result<UniqueFd> fd = object.open(O_PATH | O_NOFOLLOW);
    if (!fd.ok()) return to_fsal(fd.status());
    mode_t mode = FSAL_TEST_MASK(rest.valid_mask, ATTR_MODE) ? rest.mode : 0;
    // Draining is writing, which takes set-id bits away.
    if ((mode & (S_ISUID | S_ISGID)) != 0)
        if (int error = drain_first(object)) return to_fsal_errno(error);
    fsal_status_t status = run_as_caller_setting(mode, [&] { return set_attributes(object.type, fd->get(), rest); });
    if (FSAL_IS_SUCCESS(status)) note_attributes_set(object, rest);
    object.note_change();  // also when it failed: a part may have been set
    return status;
}

}  // namespace fabric::fsal
