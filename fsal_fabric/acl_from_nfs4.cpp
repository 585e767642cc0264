// From NFSv4 to POSIX (draft-ietf-nfsv4-acl-mapping-05 §5): walks the list in order and keeps, for each who, which
// rights were decided first by an entry that applies to them. What a list says of a named user or group that was seen
// late starts from what it said of everyone before.
#include <algorithm>

#include "fsal_fabric/posix_acl.h"

namespace fabric::fsal {
namespace {

constexpr fsal_aceflag_t inherit_flags = FSAL_ACE_FLAG_FILE_INHERIT | FSAL_ACE_FLAG_DIR_INHERIT;
constexpr uint32_t no_id = UINT32_MAX;

// Rights decided so far, as NFSv4 mask bits.
struct Decided {
    fsal_aceperm_t allowed = 0;
    fsal_aceperm_t denied = 0;
    void allow(fsal_aceperm_t mask) { allowed |= mask & ~denied; }
    void deny(fsal_aceperm_t mask) { denied |= mask & ~allowed; }
};

struct Named {
    uint32_t id;
    Decided decided;
};

class Reader {
  public:
    explicit Reader(bool directory) : directory_(directory) {}

    void read(const fsal_ace_t& ace) {
        seen_ = true;
        bool allows = ace.type == FSAL_ACE_TYPE_ALLOW;
        if (ace.iflag & FSAL_ACE_IFLAG_SPECIAL_ID) {
            switch (ace.who.uid) {
                case FSAL_ACE_SPECIAL_OWNER:
                    apply(owner_, allows, ace.perm);
                    break;
                case FSAL_ACE_SPECIAL_GROUP:
                    apply_group(group_, allows, ace.perm);
                    break;
                default:
                    apply_everyone(allows, ace.perm);
            }
        } else if (ace.flag & FSAL_ACE_FLAG_GROUP_ID) {
            apply_group(find(groups_, ace.who.gid), allows, ace.perm);
        } else {
            apply_user(find(users_, ace.who.uid), allows, ace.perm);
        }
    }

    bool seen() const { return seen_; }

    PosixAcl result() const {
        PosixAcl acl;
        acl.push_back({AclTag::user_obj, bits(owner_), no_id});
        add(acl, AclTag::user, users_);
        acl.push_back({AclTag::group_obj, bits(group_), no_id});
        add(acl, AclTag::group, groups_);
        if (!users_.empty() || !groups_.empty()) {
            uint16_t mask = bits(group_);
            for (const Named& user : users_) mask |= bits(user.decided);
            for (const Named& group : groups_) mask |= bits(group.decided);
            acl.push_back({AclTag::mask, mask, no_id});
        }
        acl.push_back({AclTag::other, bits(other_), no_id});
        return acl;
    }

  private:
    static void apply(Decided& who, bool allows, fsal_aceperm_t mask) { allows ? who.allow(mask) : who.deny(mask); }

    // The owner may be that user, so what is denied to the user may not be granted to the owner later: POSIX cannot say
    // who the owner is.
    void apply_user(Decided& user, bool allows, fsal_aceperm_t mask) {
        apply(user, allows, mask);
        if (!allows) owner_.deny(user.denied & mask);
    }
    // Anyone may be in the group.
    void apply_group(Decided& group, bool allows, fsal_aceperm_t mask) {
        apply(group, allows, mask);
        if (allows) return;
        fsal_aceperm_t denied = group.denied & mask;
        owner_.deny(denied);
        everyone_.deny(denied);
        for (Named& user : users_) user.decided.deny(denied);
        for (Named& other : groups_) other.decided.deny(denied);
        group_.deny(denied);
    }
    void apply_everyone(bool allows, fsal_aceperm_t mask) {
        for (Decided* who : {&owner_, &group_, &other_, &everyone_}) apply(*who, allows, mask);
        for (Named& user : users_) apply(user.decided, allows, mask);
        for (Named& group : groups_) apply(group.decided, allows, mask);
    }

    Decided& find(std::vector<Named>& named, uint32_t id) {
        auto at = std::ranges::find(named, id, &Named::id);
        if (at == named.end()) at = named.insert(at, {id, everyone_});
        return at->decided;
    }

    // A right counts when all bits of it are allowed.
    uint16_t bits(const Decided& who) const {
        auto has = [&](fsal_aceperm_t mask) { return (who.allowed & mask) == mask; };
        uint16_t permissions = 0;
        if (has(FSAL_ACE_PERM_READ_DATA)) permissions |= 4;
        fsal_aceperm_t write = FSAL_ACE_PERM_WRITE_DATA | FSAL_ACE_PERM_APPEND_DATA;
        if (directory_) write |= FSAL_ACE_PERM_DELETE_CHILD;
        if (has(write)) permissions |= 2;
        if (has(FSAL_ACE_PERM_EXECUTE)) permissions |= 1;
        return permissions;
    }

    void add(PosixAcl& acl, AclTag tag, std::vector<Named> named) const {
        std::ranges::sort(named, {}, &Named::id);
        for (const Named& one : named) acl.push_back({tag, bits(one.decided), one.id});
    }

    bool directory_;
    bool seen_ = false;
    Decided owner_, group_, other_, everyone_;
    std::vector<Named> users_, groups_;
};

// POSIX has one default list, for files and directories alike.
Status check(const fsal_ace_t& ace, bool directory) {
    if (ace.type != FSAL_ACE_TYPE_ALLOW && ace.type != FSAL_ACE_TYPE_DENY) {
        return Status::invalid("audit and alarm entries have no POSIX form");
    }
    bool special = ace.iflag & FSAL_ACE_IFLAG_SPECIAL_ID;
    if (special && (ace.who.uid < FSAL_ACE_SPECIAL_OWNER || ace.who.uid > FSAL_ACE_SPECIAL_EVERYONE)) {
        return Status::invalid("an entry for a special who that POSIX does not have");
    }
    fsal_aceflag_t inherit = ace.flag & inherit_flags;
    if (inherit == 0) return {};
    if (!directory) return Status::invalid("an entry of a file cannot be inherited");
    if (inherit != inherit_flags || (ace.flag & FSAL_ACE_FLAG_NO_PROPAGATE)) {
        return Status::invalid("an entry that only some children inherit has no POSIX form");
    }
    return {};
}

}  // namespace

Result<PosixAcls> to_posix(std::span<const fsal_ace_t> aces, bool directory) {
    Reader access(directory), inherited(directory);
    for (const fsal_ace_t& ace : aces) {
        FABRIC_RETURN_IF_ERROR(check(ace, directory));
        if (ace.flag & inherit_flags) inherited.read(ace);
        if (!(ace.flag & FSAL_ACE_FLAG_INHERIT_ONLY)) access.read(ace);
    }
    PosixAcls acls;
    acls.access = access.result();
    if (inherited.seen()) acls.default_acl = inherited.result();
    return acls;
}

}  // namespace fabric::fsal
