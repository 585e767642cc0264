#include "common/identity/capabilities.h"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace fabric::identity {

Status drop_capability(int capability) {
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    if (::syscall(SYS_capget, &header, data) != 0) return Status::from_errno(errno, "capget");
    data[CAP_TO_INDEX(capability)].effective &= ~CAP_TO_MASK(capability);
    if (::syscall(SYS_capset, &header, data) != 0) return Status::from_errno(errno, "capset");
    return {};
}

}  // namespace fabric::identity
