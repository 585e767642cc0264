// All operations on objects and exports, each defined in the file of its name; those on file data are in data/.
// The contract of each is in Ganesha's include/fsal_api.h.
#pragma once

#include "fsal_fabric/ganesha.h"

namespace fabric::fsal {

// The vectors that Ganesha calls through.
void install_object_ops(fsal_obj_ops& ops);
void install_export_ops(export_ops& ops);

// object.cpp
void release(fsal_obj_handle* object);
fsal_status_t merge(fsal_obj_handle* original, fsal_obj_handle* duplicate);
void handle_to_key(fsal_obj_handle* object, gsh_buffdesc* key);
fsal_status_t handle_to_wire(const fsal_obj_handle* object, fsal_digesttype_t type, gsh_buffdesc* to);

// Names
fsal_status_t lookup(fsal_obj_handle* directory, const char* name, fsal_obj_handle** found, fsal_attrlist* attributes);
fsal_status_t readdir(fsal_obj_handle* directory, fsal_cookie_t* whence, void* state, fsal_readdir_cb callback,
                      attrmask_t attributes, bool* end);
fsal_status_t mkdir(fsal_obj_handle* directory, const char* name, fsal_attrlist* set, fsal_obj_handle** made,
                    fsal_attrlist* attributes, fsal_attrlist* parent_before, fsal_attrlist* parent_after);
fsal_status_t mknod(fsal_obj_handle* directory, const char* name, object_file_type_t type, fsal_attrlist* set,
                    fsal_obj_handle** made, fsal_attrlist* attributes, fsal_attrlist* parent_before,
                    fsal_attrlist* parent_after);
fsal_status_t symlink(fsal_obj_handle* directory, const char* name, const char* target, fsal_attrlist* set,
                      fsal_obj_handle** made, fsal_attrlist* attributes, fsal_attrlist* parent_before,
                      fsal_attrlist* parent_after);
fsal_status_t readlink(fsal_obj_handle* object, gsh_buffdesc* target, bool refresh);
fsal_status_t link(fsal_obj_handle* object, fsal_obj_handle* directory, const char* name, fsal_attrlist* before,
                   fsal_attrlist* after);
fsal_status_t rename(fsal_obj_handle* object, fsal_obj_handle* old_directory, const char* old_name,
                     fsal_obj_handle* new_directory, const char* new_name, fsal_attrlist* old_before,
                     fsal_attrlist* old_after, fsal_attrlist* new_before, fsal_attrlist* new_after);
fsal_status_t unlink(fsal_obj_handle* directory, fsal_obj_handle* object, const char* name, fsal_attrlist* before,
                     fsal_attrlist* after);

// Attributes
fsal_status_t getattrs(fsal_obj_handle* object, fsal_attrlist* attributes);
fsal_status_t setattr2(fsal_obj_handle* object, bool bypass, state_t* state, fsal_attrlist* attributes);
fsal_status_t getxattrs(fsal_obj_handle* object, xattrkey4* name, xattrvalue4* value);
fsal_status_t setxattrs(fsal_obj_handle* object, setxattr_option4 option, xattrkey4* name, xattrvalue4* value);
fsal_status_t removexattrs(fsal_obj_handle* object, xattrkey4* name);
fsal_status_t listxattrs(fsal_obj_handle* object, count4 max_count, nfs_cookie4* cookie, bool_t* end,
                         xattrlist4* names);

// Exports
void release_export(fsal_export* handle);
fsal_status_t lookup_path(fsal_export* handle, const char* path, fsal_obj_handle** root, fsal_attrlist* attributes);
fsal_status_t wire_to_host(fsal_export* handle, fsal_digesttype_t type, gsh_buffdesc* bytes, int flags);
fsal_status_t host_to_key(fsal_export* handle, gsh_buffdesc* bytes);
fsal_status_t create_handle(fsal_export* handle, gsh_buffdesc* bytes, fsal_obj_handle** object,
                            fsal_attrlist* attributes);
fsal_status_t get_fs_dynamic_info(fsal_export* handle, fsal_obj_handle* object, fsal_dynamicfsinfo_t* info);
uint64_t fs_maxfilesize(fsal_export* handle);
fsal_status_t get_quota(fsal_export* handle, const char* path, int type, int id, fsal_quota_t* quota);
fsal_status_t set_quota(fsal_export* handle, const char* path, int type, int id, fsal_quota_t* quota,
                        fsal_quota_t* result);

}  // namespace fabric::fsal
