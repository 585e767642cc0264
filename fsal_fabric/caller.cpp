#include "fsal_fabric/caller.h"

#include "fsal_fabric/module.h"

namespace fabric::fsal {

identity::Credentials caller() {
    const user_cred& creds = op_ctx->creds;
    return {.uid = creds.caller_uid, .gid = creds.caller_gid, .groups = {creds.caller_garray, creds.caller_glen}};
}

// With CAP_DAC_OVERRIDE groups decide nothing but the group of new files.
bool caller_is_us(const identity::Credentials& who) { return who.uid == 0 && who.gid == 0; }

identity::Pool& identity_pool() { return *module().identities; }

bool keeps_set_id_bits(int fd) {
    if (op_ctx->creds.caller_uid != 0) return false;
    struct stat status;
    return ::fstat(fd, &status) == 0 && (status.st_mode & (S_ISUID | S_ISGID)) != 0;
}

}  // namespace fabric::fsal
