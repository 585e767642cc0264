#include "xds/client/mount.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <climits>

namespace fabric::xds::client {
namespace {

// `path` without `prefix`, both taken as lists of names. Empty: it does not begin with it.
std::optional<std::string> without_prefix(const std::string& path, std::string prefix) {
    while (prefix.ends_with('/')) prefix.pop_back();
    if (!path.starts_with(prefix)) return std::nullopt;
    std::string rest = path.substr(prefix.size());
    if (!rest.empty() && rest[0] != '/') return std::nullopt;
    return rest;
}

}  // namespace

std::optional<std::string> path_on_target(const fs::Mount& mount, const std::string& path, const std::string& prefix) {
    // An IPv6 server stands in brackets, so the export begins at the first ":/".
    size_t colon = mount.source.find(":/");
    if (!mount.type.starts_with("nfs") || colon == std::string::npos) return std::nullopt;
    std::optional<std::string> below_mount = without_prefix(path, mount.path);
    if (!below_mount) return std::nullopt;
    if (prefix.empty()) return below_mount;
    std::optional<std::string> mounted = without_prefix(mount.source.substr(colon + 1), prefix);
    if (!mounted) return std::nullopt;
    while (mounted->ends_with('/')) mounted->pop_back();
    return *mounted + *below_mount;
}

Result<std::optional<std::string>> find_on_target(int fd, const std::string& prefix, const std::string& folder) {
    struct statfs filesystem;
    if (::fstatfs(fd, &filesystem) != 0) return Status::from_errno(errno, "fstatfs of the descriptor");
    bool nfs = filesystem.f_type == NFS_SUPER_MAGIC;
    if (!nfs && folder.empty()) return std::optional<std::string>();
    char path[PATH_MAX];
    ssize_t length = ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof path);
    if (length < 0) return Status::from_errno(errno, "path of the descriptor");
    std::string name(path, static_cast<size_t>(length));
    bool deleted = name.ends_with(" (deleted)");
    if (!folder.empty() && !deleted)
        if (std::optional<std::string> below = without_prefix(name, folder)) return below;
    if (!nfs) return std::optional<std::string>();
    struct statx status;
    if (::statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &status) != 0)
        return Status::from_errno(errno, "statx of the descriptor");
    if (deleted) return Status::from_errno(ESTALE, name);
    for (const fs::Mount& mount : fs::read_mounts())
        if (mount.id == status.stx_mnt_id)
            if (std::optional<std::string> found = path_on_target(mount, name, prefix)) return found;
    return Status(Code::config, EXDEV,
                  name +
                      " is on an NFS mount, but not on one of the target's export; XDS_EXPORT names the path under "
                      "which the gateway exports the target's root");
}

}  // namespace fabric::xds::client
