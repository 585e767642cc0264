// States (open, lock) with their descriptors, and the closing of files.
#include "fsal_fabric/data/commit.h"
#include "fsal_fabric/data/descriptor.h"
#include "fsal_fabric/data/ops.h"

namespace fabric::fsal {
namespace {

// fsal_start_io looks for the descriptor right behind the state (FSAL/commonlib.c).
struct StateWithFd {
    state_t state;
    Fd descriptor;
};
static_assert(offsetof(StateWithFd, descriptor) == sizeof(state_t));

void free_our_state(state_t* state) {
    destroy_fsal_fd(&state_descriptor(state).base);
    gsh_free(state);
}

bool has_share(const state_t* state) {
    return state->state_type == STATE_TYPE_SHARE || state->state_type == STATE_TYPE_NLM_SHARE ||
           state->state_type == STATE_TYPE_9P_FID;
}

}  // namespace

Fd& state_descriptor(state_t* state) { return reinterpret_cast<StateWithFd*>(state)->descriptor; }

void FileData::init(fsal_obj_handle& of, fsal_export& owner) {
    init_descriptor(global, FSAL_FD_GLOBAL, &owner);
    share = {};
    object = &of;
    uncommitted = -1;
    rule = rule_unknown;
    next_uncommitted = previous_uncommitted = nullptr;
}

void FileData::destroy() { destroy_fsal_fd(&global.base); }

state_t* alloc_state(fsal_export* export_handle, state_type type, state_t* related) {
    void* memory = gsh_calloc(1, sizeof(StateWithFd));
    state_t* state = init_state(static_cast<state_t*>(memory), free_our_state, type, related);
    init_descriptor(state_descriptor(state), FSAL_FD_STATE, export_handle);
    return state;
}

void get_fsal_obj_hdl(fsal_export*, fsal_fd* base, fsal_obj_handle** handle) {
    static_assert(offsetof(FileData, global) == 0 && offsetof(Fd, base) == 0);
    *handle = reinterpret_cast<FileData*>(base)->object;
}

fsal_openflags_t status2(fsal_obj_handle*, state_t* state) { return state_descriptor(state).base.openflags; }

// The answer "was not open" tells Ganesha not to count the descriptor a second time.
fsal_status_t close(fsal_obj_handle* handle) {
    fsal_status_t status = close_fsal_fd(handle, &from(handle).file.global.base, false);
    return FSAL_IS_ERROR(status) ? status : fsalstat(ERR_FSAL_NOT_OPENED, 0);
}

fsal_status_t close2(fsal_obj_handle* handle, state_t* state) {
    Fd& descriptor = state_descriptor(state);
    if (has_share(state))
        update_share_counters_locked(handle, &from(handle).file.share, descriptor.base.openflags, FSAL_O_CLOSED);
    return close_fsal_fd(handle, &descriptor.base, false);
}

void close_object_file(Object& object) {
    settle_uncommitted(object);
    close_fsal_fd(&object, &object.file.global.base, false);
}

fsal_status_t merge_shares(Object& original, Object& duplicate) {
    return merge_share(&original, &original.file.share, &duplicate.file.share);
}

}  // namespace fabric::fsal
