// Errors of the system and of our own code as Ganesha's, in one place.
#pragma once

#include "common/result.h"
#include "fsal_fabric/ganesha.h"

namespace fabric::fsal {

inline fsal_status_t fsal_ok() { return fsalstat(ERR_FSAL_NO_ERROR, 0); }

// `error` is a positive errno; 0 is success. The minor code is the errno itself.
fsal_status_t to_fsal_errno(int error);
fsal_status_t to_fsal(const Status& status);

}  // namespace fabric::fsal
