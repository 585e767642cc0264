#include "fsal_fabric/data/verifier.h"

namespace fabric::fsal {

std::array<timespec, 2> verifier_times(const char* verifier) {
    uint32_t half[2];
    static_assert(sizeof half == sizeof(fsal_verifier_t));
    memcpy(half, verifier, sizeof half);
    return {timespec{half[0] & INT32_MAX, 0}, timespec{half[1] & INT32_MAX, 0}};
}

bool has_verifier(const struct statx& status, const char* verifier) {
    std::array<timespec, 2> times = verifier_times(verifier);
    return status.stx_atime.tv_sec == times[0].tv_sec && status.stx_atime.tv_nsec == 0 &&
           status.stx_mtime.tv_sec == times[1].tv_sec && status.stx_mtime.tv_nsec == 0;
}

}  // namespace fabric::fsal
