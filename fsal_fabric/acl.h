// Access control lists of files, as Ganesha holds them and as the file system does.
#pragma once

#include <sys/stat.h>

#include "fsal_fabric/posix_acl.h"

namespace fabric::fsal {

// The list of what `fd` (O_PATH will do) shows, with one reference; null when it says no more than the mode does.
Result<fsal_acl_t*> read_acl(int fd, const struct statx& status);
// Replaces both lists of the object. Null, or an empty one, removes what goes beyond the mode. As the calling thread.
Status write_acl(object_file_type_t type, int fd, const fsal_acl_t* acl);

}  // namespace fabric::fsal
