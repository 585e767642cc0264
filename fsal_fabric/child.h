// From a descriptor to an Object.
#pragma once

#include "fsal_fabric/attributes.h"

namespace fabric::fsal {

// Makes the Object with that id, of which `fd` (O_PATH will do) is a descriptor, and fills `attributes` when not null.
Result<Object*> make_object(const fs::FilesystemPtr& filesystem, const fs::FileId& id, int fd,
                            fsal_attrlist* attributes);

// The same for what was found in or made in the directory `parent`; where another file system is mounted there, its
// root. The descriptor stays the caller's.
Result<Object*> make_child(const Object& parent, int fd, fsal_attrlist* attributes);
// With what stat_descriptor(fd) has just said.
Result<Object*> make_child(const Object& parent, int fd, const struct statx& status, fsal_attrlist* attributes);
// The same for an entry of a listing, with two system calls when no access control list is asked for.
Result<Object*> make_entry(const Object& directory, int directory_fd, const char* name, fsal_attrlist& attributes);

}  // namespace fabric::fsal
