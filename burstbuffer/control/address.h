// The address of a Unix socket.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <string>

#include "common/result.h"

namespace fabric::control {

inline Result<sockaddr_un> address_of(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof address.sun_path) {
        return Status::invalid("control socket \"" + path + "\": the path must have 1 to 107 bytes");
    }
    std::memcpy(address.sun_path, path.data(), path.size());
    return address;
}

}  // namespace fabric::control
