// From a descriptor on an NFS mount to the path that the file has on the gateway.
#pragma once

#include <optional>
#include <string>

#include "common/fs/mount_info.h"
#include "common/result.h"

namespace fabric::xds::client {

// The path below the target's root of a file at `path` in `mount`, which is of type nfs or nfs4 with a source of
// SERVER:/EXPORT. `prefix`: the path under which the gateway exports the target's root (XDS_EXPORT); empty: what is
// mounted is that root. Empty result: the mount lies outside of the prefix, or the path outside of the mount.
std::optional<std::string> path_on_target(const fs::Mount& mount, const std::string& path, const std::string& prefix);

// Empty: the descriptor is neither on an NFS mount nor below `folder`, which shows the target's root whatever file
// system it is (XDS_MOUNT; empty: there is none).
Result<std::optional<std::string>> find_on_target(int fd, const std::string& prefix, const std::string& folder = {});

}  // namespace fabric::xds::client
