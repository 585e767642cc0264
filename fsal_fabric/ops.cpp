#include "fsal_fabric/ops.h"

#include "fsal_fabric/data/data_ops.h"

namespace fabric::fsal {

void install_object_ops(fsal_obj_ops& ops) {
    fsal_default_obj_ops_init(&ops);
    ops.release = release;
    ops.merge = merge;
    ops.handle_to_key = handle_to_key;
    ops.handle_to_wire = handle_to_wire;
    ops.lookup = lookup;
    ops.readdir = readdir;
    ops.mkdir = mkdir;
    ops.mknode = mknod;
    ops.symlink = symlink;
    ops.readlink = readlink;
    ops.link = link;
    ops.rename = rename;
    ops.unlink = unlink;
    ops.getattrs = getattrs;
    ops.setattr2 = setattr2;
    ops.getxattrs = getxattrs;
    ops.setxattrs = setxattrs;
    ops.removexattrs = removexattrs;
    ops.listxattrs = listxattrs;
    install_data_ops(ops);
}

void install_export_ops(export_ops& ops) {
    ops.release = release_export;
    ops.lookup_path = lookup_path;
    ops.wire_to_host = wire_to_host;
    ops.host_to_key = host_to_key;
    ops.create_handle = create_handle;
    ops.get_fs_dynamic_info = get_fs_dynamic_info;
    ops.fs_maxfilesize = fs_maxfilesize;
    ops.get_quota = get_quota;
    ops.set_quota = set_quota;
    install_data_export_ops(ops);
}

}  // namespace fabric::fsal
