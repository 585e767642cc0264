// The operations of the data path, each defined in the file of its name or group. Contracts: include/fsal_api.h.
#pragma once

#include "fsal_fabric/object.h"

namespace fabric::fsal {

// state.cpp
state_t* alloc_state(fsal_export* export_handle, state_type type, state_t* related);
void get_fsal_obj_hdl(fsal_export* export_handle, fsal_fd* base, fsal_obj_handle** handle);
fsal_openflags_t status2(fsal_obj_handle* handle, state_t* state);
fsal_status_t close(fsal_obj_handle* handle);
fsal_status_t close2(fsal_obj_handle* handle, state_t* state);
Fd& state_descriptor(state_t* state);

// open.cpp
fsal_status_t open2(fsal_obj_handle* handle, state_t* state, fsal_openflags_t flags, fsal_create_mode mode,
                    const char* name, fsal_attrlist* set, fsal_verifier_t verifier, fsal_obj_handle** opened,
                    fsal_attrlist* attributes, bool* caller_checks, fsal_attrlist* parent_before,
                    fsal_attrlist* parent_after);
fsal_status_t reopen2(fsal_obj_handle* handle, state_t* state, fsal_openflags_t flags);
bool check_verifier(fsal_obj_handle* handle, fsal_verifier_t verifier);

// read.cpp, write.cpp, commit.cpp
void read2(fsal_obj_handle* handle, bool bypass, fsal_async_cb done, fsal_io_arg* arguments, void* caller_data);
void write2(fsal_obj_handle* handle, bool bypass, fsal_async_cb done, fsal_io_arg* arguments, void* caller_data);
fsal_status_t commit2(fsal_obj_handle* handle, off_t offset, size_t length);
void get_write_verifier(fsal_export* export_handle, gsh_buffdesc* verifier);

// lock.cpp, space.cpp
fsal_status_t lock_op2(fsal_obj_handle* handle, state_t* state, void* owner, fsal_lock_op_t operation,
                       fsal_lock_param_t* wanted, fsal_lock_param_t* conflicting);
fsal_status_t seek2(fsal_obj_handle* handle, state_t* state, io_info* info);
fsal_status_t fallocate(fsal_obj_handle* handle, state_t* state, uint64_t offset, uint64_t length, bool allocate);
fsal_status_t io_advise2(fsal_obj_handle* handle, state_t* state, io_hints* hints);

}  // namespace fabric::fsal
