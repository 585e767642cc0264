#include "fsal_fabric/data/completion.h"

namespace fabric::fsal {

// The request holds a reference to the export until it has our answer, so it can still be taken here; releasing the
// context gives it back. The caller's identity goes along: with Read_Access_Check_Policy = post the callback checks
// access, and would do so as root otherwise.
void Completion::elsewhere(fsal_status_t status) const {
    req_op_context context;
    get_gsh_export_ref(export_);
    init_op_context_simple(&context, export_, fsal_export_);
    context.creds = creds_;
    context.export_perms = perms_;
    here(status);
    release_op_context();
}

}  // namespace fabric::fsal
