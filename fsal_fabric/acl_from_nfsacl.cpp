// Back from the NFSv4 list that Ganesha makes of one of NFSACL (posix_acl_2_fsal_acl in FSAL/posix_acls.c): each POSIX
// entry has one ALLOW entry, with what the mask withholds marked in it. The DENY entries between them say nothing new.
#include <algorithm>

#include "fsal_fabric/posix_acl.h"

namespace fabric::fsal {
namespace {

constexpr uint32_t no_id = UINT32_MAX;

bool is_special(const fsal_ace_t& ace) { return (ace.iflag & FSAL_ACE_IFLAG_SPECIAL_ID) != 0; }

AclEntry entry_of(const fsal_ace_t& ace) {
    AclEntry entry{AclTag::user, 0, no_id};
    if ((ace.perm & FSAL_ACE_PERM_READ_DATA) || (ace.iflag & FSAL_ACE_FLAG_MASK_READ_DENY)) entry.permissions |= 4;
    if ((ace.perm & FSAL_ACE_PERM_WRITE_DATA) || (ace.iflag & FSAL_ACE_FLAG_MASK_WRITE_DENY)) entry.permissions |= 2;
    if ((ace.perm & FSAL_ACE_PERM_EXECUTE) || (ace.iflag & FSAL_ACE_FLAG_MASK_EXECUTE_DENY)) entry.permissions |= 1;
    if (!is_special(ace)) {
        bool group = ace.flag & FSAL_ACE_FLAG_GROUP_ID;
        entry.tag = group ? AclTag::group : AclTag::user;
        entry.id = group ? ace.who.gid : ace.who.uid;
        return entry;
    }
    switch (ace.who.uid) {
        case FSAL_ACE_SPECIAL_OWNER:
            entry.tag = AclTag::user_obj;
            break;
        case FSAL_ACE_SPECIAL_GROUP:
            entry.tag = AclTag::group_obj;
            break;
        case FSAL_ACE_SPECIAL_MASK:
            entry.tag = AclTag::mask;
            break;
        default:
            entry.tag = AclTag::other;
    }
    return entry;
}

// Linux clients send a mask with the group's permissions where a list has none, for servers that want four entries at
// least: as the kernel's server does, it is left out again.
void drop_made_up_mask(PosixAcl& acl) {
    if (acl.size() != 4) return;
    auto group = std::ranges::find(acl, AclTag::group_obj, &AclEntry::tag);
    auto mask = std::ranges::find(acl, AclTag::mask, &AclEntry::tag);
    if (group != acl.end() && mask != acl.end() && group->permissions == mask->permissions) acl.erase(mask);
}

void finish(PosixAcl& acl) {
    std::ranges::sort(acl, {}, [](const AclEntry& entry) { return std::pair(entry.tag, entry.id); });
    drop_made_up_mask(acl);
}

}  // namespace

bool is_from_nfsacl(std::span<const fsal_ace_t> aces) {
    return std::ranges::any_of(
        aces, [](const fsal_ace_t& ace) { return is_special(ace) && ace.who.uid == FSAL_ACE_SPECIAL_MASK; });
}

PosixAcls from_nfsacl(std::span<const fsal_ace_t> aces) {
    PosixAcls acls;
    for (const fsal_ace_t& ace : aces) {
        if (ace.type != FSAL_ACE_TYPE_ALLOW) continue;
        bool inherited = ace.flag & (FSAL_ACE_FLAG_FILE_INHERIT | FSAL_ACE_FLAG_DIR_INHERIT);
        (inherited ? acls.default_acl : acls.access).push_back(entry_of(ace));
    }
    finish(acls.access);
    finish(acls.default_acl);
    return acls;
}

}  // namespace fabric::fsal
