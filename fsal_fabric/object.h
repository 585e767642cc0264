// A file system object as Ganesha sees it, with what we need to find and serve it.
#pragma once

#include <atomic>

#include "common/fs/filesystem.h"
#include "fsal_fabric/data/data_ops.h"
#include "fsal_fabric/data/file.h"
#include "fsal_fabric/ganesha.h"
#include "fsal_fabric/no_acl.h"

namespace fabric::fsal {

// One per object and server: MDCACHE keeps it, counts the references and shares it between exports. All but `no_acl`,
// `changes` and `file` is immutable after creation.
struct Object : fsal_obj_handle {
    Object(fsal_export& made_for, object_file_type_t object_type, const fs::FileId& file_id, fs::FilesystemPtr lies_on);
    ~Object();
    Object(const Object&) = delete;
    Object& operator=(const Object&) = delete;

    // A descriptor of the object by its handle, with the server's own rights: who may have it is decided by the
    // caller before. ESTALE when the object is gone. When descriptors run out, has unused ones closed and tries again.
    Result<UniqueFd> open(int flags) const;

    // Called after a change through this server. The kernel's times advance by ticks (4 ms on many machines), so two
    // changes within one would look the same to a client that caches by the change attribute.
    void note_change() const { changes.fetch_add(1, std::memory_order_relaxed); }

    fs::FileId id;
    fs::FilesystemPtr filesystem;
    statx_timestamp created{};  // where the file system tells
    bool tells_created = false;
    mutable NoAcl no_acl;
    mutable std::atomic<uint64_t> changes{
        0};           // part of the change attribute; starts anew when the object leaves the cache
    FileData file{};  // in use for regular files only
};

inline Object& from(fsal_obj_handle* handle) { return *static_cast<Object*>(handle); }
inline const Object& from(const fsal_obj_handle* handle) { return *static_cast<const Object*>(handle); }

}  // namespace fabric::fsal
