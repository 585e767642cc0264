#include "fsal_fabric/data/ops.h"

#include "fsal_fabric/data/data_ops.h"
#include "fsal_fabric/data/descriptor.h"

namespace fabric::fsal {

void install_data_ops(fsal_obj_ops& ops) {
    ops.open2 = open2;
    ops.check_verifier = check_verifier;
    ops.reopen2 = reopen2;
    ops.status2 = status2;
    ops.close = close;
    ops.close2 = close2;
    ops.close_func = close_func;
    ops.reopen_func = reopen_func;
    ops.read2 = read2;
    ops.write2 = write2;
    ops.commit2 = commit2;
    ops.lock_op2 = lock_op2;
    ops.seek2 = seek2;
    ops.fallocate = fallocate;
    ops.io_advise2 = io_advise2;
}

void install_data_export_ops(export_ops& ops) {
    ops.alloc_state = alloc_state;
    ops.get_write_verifier = get_write_verifier;
    ops.get_fsal_obj_hdl = get_fsal_obj_hdl;
}

}  // namespace fabric::fsal
