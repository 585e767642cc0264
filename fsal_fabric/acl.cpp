#include "fsal_fabric/acl.h"

#include <sys/xattr.h>

#include <array>

#include "fsal_fabric/descriptor_path.h"

namespace fabric::fsal {
namespace {

constexpr char access_name[] = "system.posix_acl_access";
constexpr char default_name[] = "system.posix_acl_default";

// By the descriptor, which is several times cheaper, unless it was opened with O_PATH.
ssize_t get(int fd, const char* name, std::span<uint8_t> buffer) {
    ssize_t size = ::fgetxattr(fd, name, buffer.data(), buffer.size());
    if (size >= 0 || errno != EBADF) return size;
    return ::getxattr(DescriptorPath(fd).c_str(), name, buffer.data(), buffer.size());
}

// Empty where there is none, also on file systems that know none.
Result<PosixAcl> read_list(int fd, const char* name) {
    std::array<uint8_t, 4096> small;
    std::vector<uint8_t> large;
    std::span<uint8_t> buffer = small;
    for (;;) {
        ssize_t size = get(fd, name, buffer);
        if (size >= 0) return parse_posix_acl(buffer.first(static_cast<size_t>(size)));
        if (errno == ENODATA || errno == EOPNOTSUPP) return PosixAcl{};
        if (errno != ERANGE || !large.empty()) return Status::from_errno(errno);
        large.resize(XATTR_SIZE_MAX);
        buffer = large;
    }
}

Status write_list(const DescriptorPath& path, const char* name, const PosixAcl& acl) {
    if (acl.empty()) {
        bool gone = ::removexattr(path.c_str(), name) == 0 || errno == ENODATA || errno == EOPNOTSUPP;
        return gone ? Status() : Status::from_errno(errno);
    }
    std::vector<uint8_t> bytes = encode_posix_acl(acl);
    if (::setxattr(path.c_str(), name, bytes.data(), bytes.size(), 0) == 0) return {};
    return Status::from_errno(errno);
}

}  // namespace

Result<fsal_acl_t*> read_acl(int fd, const struct statx& status) {
    mode_t mode = static_cast<mode_t>(status.stx_mode);
    if (S_ISLNK(mode)) return nullptr;
    Result<PosixAcl> access = read_list(fd, access_name);
    if (!access.ok()) return access.status();
    PosixAcls acls{.access = std::move(access).value(), .default_acl = {}};
    if (S_ISDIR(mode)) {
        Result<PosixAcl> inherited = read_list(fd, default_name);
        if (!inherited.ok()) return inherited.status();
        acls.default_acl = std::move(inherited).value();
    }
    if (!is_extended(acls.access) && acls.default_acl.empty()) return nullptr;
    if (acls.access.empty()) acls.access = acl_from_mode(mode);
    AclProtocol protocol = op_ctx && op_ctx->nfs_vers == NFS_V3 ? AclProtocol::nfsacl : AclProtocol::nfs4;
    std::vector<fsal_ace_t> aces = to_nfs4(acls.access, acls.default_acl, protocol, S_ISDIR(mode));
    fsal_acl_data_t data{};
    data.naces = static_cast<uint32_t>(aces.size());
    data.aces = nfs4_ace_alloc(static_cast<int>(aces.size()));
    std::copy(aces.begin(), aces.end(), data.aces);
    fsal_acl_status_t result;
    // Takes the entries over, and shares equal lists.
    return nfs4_acl_new_entry(&data, &result);
}

Status write_acl(object_file_type_t type, int fd, const fsal_acl_t* acl) {
    if (type == SYMBOLIC_LINK) return Status::from_errno(EOPNOTSUPP);
    bool directory = type == DIRECTORY;
    PosixAcls acls;
    std::span<const fsal_ace_t> aces;
    if (acl) aces = {acl->aces, acl->naces};
    if (is_from_nfsacl(aces)) {
        acls = from_nfsacl(aces);
    } else if (!aces.empty()) {
        Result<PosixAcls> mapped = to_posix(aces, directory);
        if (!mapped.ok()) return mapped.status();
        acls = std::move(mapped).value();
    }
    DescriptorPath path(fd);
    FABRIC_RETURN_IF_ERROR(write_list(path, access_name, acls.access));
    return directory ? write_list(path, default_name, acls.default_acl) : Status();
}

}  // namespace fabric::fsal
