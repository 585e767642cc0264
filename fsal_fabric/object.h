// A file system object as Ganesha sees it, with what we need to find and serve it.
#pragma once

#include "common/fs/filesystem.h"
#include "fsal_fabric/data/data_ops.h"
#include "fsal_fabric/data/file.h"
#include "fsal_fabric/ganesha.h"

namespace fabric::fsal {

// One per object and server: MDCACHE keeps it, counts the references and shares it between exports. All but `file` is
// immutable after creation.
struct Object : fsal_obj_handle {
    Object(fsal_export& made_for, object_file_type_t object_type, const fs::FileId& file_id, fs::FilesystemPtr lies_on);
    ~Object();
    Object(const Object&) = delete;
    Object& operator=(const Object&) = delete;

    // A descriptor of the object by its handle, with the server's own rights: who may have it is decided by the
    // caller before. ESTALE when the object is gone. When descriptors run out, has unused ones closed and tries again.
    Result<UniqueFd> open(int flags) const;

    fs::FileId id;
    fs::FilesystemPtr filesystem;
    FileData file{};  // in use for regular files only
};

inline Object& from(fsal_obj_handle* handle) { return *static_cast<Object*>(handle); }
inline const Object& from(const fsal_obj_handle* handle) { return *static_cast<const Object*>(handle); }

}  // namespace fabric::fsal
