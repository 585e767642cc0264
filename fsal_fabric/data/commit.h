// Which writes are not durable yet, and making them so.
#pragma once

#include "fsal_fabric/object.h"

namespace fabric::fsal {

// Notes a write of `fd` that is answered UNSTABLE; call it before the descriptor can be closed. False: too many files
// have uncommitted writes, and this one must be made durable now.
bool note_uncommitted(Object& object, int fd);
// fsync(2) with its fault point. On an error acknowledged writes may be lost, so the write verifier changes. 0 or a
// positive errno.
int sync_file(Object& object, int fd);
// The object goes away: what nobody committed is synced now, for the verifier's sake.
void settle_uncommitted(Object& object);

}  // namespace fabric::fsal
