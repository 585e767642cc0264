// The verifier of an exclusive create (RFC 1813 §3.3.8, RFC 8881 §18.16), kept in the new file's access and
// modification times as the kernel's server keeps it: durable with the file itself, so that a retransmission is
// recognised after a restart too. 31 bits of each half, so that the times are ones that every file system and client
// can show.
#pragma once

#include <sys/stat.h>

#include <array>

#include "fsal_fabric/ganesha.h"

namespace fabric::fsal {

// For futimens(2): access time, modification time.
std::array<timespec, 2> verifier_times(const char* verifier);
bool has_verifier(const struct statx& status, const char* verifier);

}  // namespace fabric::fsal
