// Names as clients send them.
#pragma once

#include <cerrno>
#include <cstring>

namespace fabric::fsal {

// 0, or the errno that a name from the network deserves before it comes near a path walk: NFSv3 lets a slash through.
// Length is left to the file system, and so are bytes that are not UTF-8, in all versions alike.
inline int check_name(const char* name) { return *name == '\0' || std::strchr(name, '/') ? EACCES : 0; }

}  // namespace fabric::fsal
