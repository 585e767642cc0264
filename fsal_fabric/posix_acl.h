// POSIX access control lists, their form in extended attributes, and their mapping to NFSv4's and back.
//
// The mapping is that of draft-ietf-nfsv4-acl-mapping-05: an NFSv4 list made from a POSIX one grants and denies what
// the kernel would, with one exception that NFSv4 cannot say: of several groups that match, POSIX wants a single one to
// grant all that is asked, NFSv4 adds them up. Each right by itself is the same.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/result.h"
#include "fsal_fabric/ganesha.h"

namespace fabric::fsal {

// acl(5). Values as in the extended attribute (include/uapi/linux/posix_acl.h).
enum class AclTag : uint16_t { user_obj = 1, user = 2, group_obj = 4, group = 8, mask = 16, other = 32 };

struct AclEntry {
    AclTag tag;
    uint16_t permissions;  // 4 read, 2 write, 1 execute
    uint32_t id;           // for user and group
    bool operator==(const AclEntry&) const = default;
};

// Sorted as the kernel wants them: by tag.
using PosixAcl = std::vector<AclEntry>;

// system.posix_acl_access and system.posix_acl_default. EINVAL when the bytes are no list.
Result<PosixAcl> parse_posix_acl(std::span<const uint8_t> bytes);
std::vector<uint8_t> encode_posix_acl(const PosixAcl& acl);
// Whether it says more than the mode does.
bool is_extended(const PosixAcl& acl);
PosixAcl acl_from_mode(mode_t mode);

// Who a list is for. NFSACL, the side protocol of NFSv3, has POSIX lists; Ganesha makes them from NFSv4 ones, in which
// an entry of its own stands for the mask. NFSv4 clients must not see that one.
enum class AclProtocol { nfs4, nfsacl };

// The NFSv4 list of an object with these lists; `default_acl` is empty but for directories. What a mask withholds from
// an entry is marked in it, by Ganesha's FSAL_ACE_FLAG_MASK_*_DENY.
std::vector<fsal_ace_t> to_nfs4(const PosixAcl& access, const PosixAcl& default_acl, AclProtocol protocol,
                                bool directory);

struct PosixAcls {
    PosixAcl access;
    PosixAcl default_acl;  // empty: none
};
// EINVAL when a list has no equal (audit entries, inheritance on a file, inheritance without DIR and FILE both).
Result<PosixAcls> to_posix(std::span<const fsal_ace_t> aces, bool directory);

// Whether Ganesha made the list from an NFSACL one: those of Linux clients always have a mask.
bool is_from_nfsacl(std::span<const fsal_ace_t> aces);
// That one again, entry by entry. Sound only if the client's was.
PosixAcls from_nfsacl(std::span<const fsal_ace_t> aces);

}  // namespace fabric::fsal
