#include "common/identity/capabilities.h"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace fabric::identity {

namespace {

Status set_effective(int capability, bool on) {
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    if (::syscall(SYS_capget, &header, data) != 0) return Status::from_errno(errno, "capget");
    uint32_t& effective = data[CAP_TO_INDEX(capability)].effective;
    effective = on ? effective | CAP_TO_MASK(capability) : effective & ~CAP_TO_MASK(capability);
    if (::syscall(SYS_capset, &header, data) != 0) return Status::from_errno(errno, "capset");
    return {};
}

}  // namespace

Status drop_capability(int capability) { return set_effective(capability, false); }
Status raise_capability(int capability) { return set_effective(capability, true); }

}  // namespace fabric::identity
