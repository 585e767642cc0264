#include "common/result.h"

#include <cstring>

namespace fabric {

Status Status::from_errno(int errno_value, std::string_view what) {
    // A call that failed without an errno is still a failure.
    if (errno_value == 0) errno_value = EIO;
    char buffer[128];
    std::string message;
    if (!what.empty()) {
        message.append(what).append(": ");
        message += strerror_r(errno_value, buffer, sizeof buffer);
    }
    return {Code::io, errno_value, std::move(message)};
}

}  // namespace fabric
