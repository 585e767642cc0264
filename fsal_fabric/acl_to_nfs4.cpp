// From POSIX to NFSv4. For each class of users the list first denies what a later entry would wrongly grant it, then
// allows what is its own (draft-ietf-nfsv4-acl-mapping-05 §4).
#include <algorithm>

#include "fsal_fabric/posix_acl.h"

namespace fabric::fsal {
namespace {

constexpr uint16_t all = 7;

fsal_aceperm_t mask_of(uint16_t permissions, bool directory) {
    fsal_aceperm_t mask = 0;
    if (permissions & 4) mask |= FSAL_ACE_PERM_READ_DATA;
    if (permissions & 2) mask |= FSAL_ACE_PERM_WRITE_DATA | FSAL_ACE_PERM_APPEND_DATA;
    if (permissions & 2 && directory) mask |= FSAL_ACE_PERM_DELETE_CHILD;
    if (permissions & 1) mask |= FSAL_ACE_PERM_EXECUTE;
    return mask;
}

// An entry's permissions are what the mask leaves of them.
struct Granted : AclEntry {
    uint16_t withheld = 0;  // what it takes away
};

// How Ganesha marks it for itself: no part of what goes over the network.
fsal_aceflag_t marks_of(uint16_t withheld) {
    fsal_aceflag_t marks = 0;
    if (withheld & 4) marks |= FSAL_ACE_FLAG_MASK_READ_DENY;
    if (withheld & 2) marks |= FSAL_ACE_FLAG_MASK_WRITE_DENY;
    if (withheld & 1) marks |= FSAL_ACE_FLAG_MASK_EXECUTE_DENY;
    return marks;
}

class Writer {
  public:
    Writer(std::vector<fsal_ace_t>& aces, fsal_aceflag_t flags, bool directory)
        : aces_(aces), flags_(flags), directory_(directory) {}

    void allow(const Granted& who) {
        fsal_aceperm_t always = FSAL_ACE_PERM_READ_ATTR | FSAL_ACE_PERM_READ_ACL | FSAL_ACE_PERM_SYNCHRONIZE;
        if (who.tag == AclTag::user_obj) always |= FSAL_ACE_PERM_WRITE_ATTR | FSAL_ACE_PERM_WRITE_ACL;
        add(who, FSAL_ACE_TYPE_ALLOW, mask_of(who.permissions, directory_) | always);
        aces_.back().iflag |= marks_of(who.withheld);
    }
    void deny(const AclEntry& who, uint16_t permissions) {
        if (permissions) add(who, FSAL_ACE_TYPE_DENY, mask_of(permissions, directory_));
    }
    void mask(const AclEntry& entry) { add(entry, FSAL_ACE_TYPE_ALLOW, mask_of(entry.permissions, directory_)); }

  private:
    void add(const AclEntry& entry, fsal_acetype_t type, fsal_aceperm_t mask) {
        fsal_ace_t ace{};
        ace.type = type;
        ace.perm = mask;
        ace.flag = flags_;
        switch (entry.tag) {
            case AclTag::user_obj:
                special(ace, FSAL_ACE_SPECIAL_OWNER);
                break;
            case AclTag::group_obj:
                special(ace, FSAL_ACE_SPECIAL_GROUP);
                ace.flag |= FSAL_ACE_FLAG_GROUP_ID;
                break;
            case AclTag::other:
                special(ace, FSAL_ACE_SPECIAL_EVERYONE);
                break;
            case AclTag::mask:
                special(ace, FSAL_ACE_SPECIAL_MASK);
                break;
            case AclTag::group:
                ace.who.gid = entry.id;
                ace.flag |= FSAL_ACE_FLAG_GROUP_ID;
                break;
            default:
                ace.who.uid = entry.id;
        }
        aces_.push_back(ace);
    }
    static void special(fsal_ace_t& ace, uid_t who) {
        ace.iflag = FSAL_ACE_IFLAG_SPECIAL_ID;
        ace.who.uid = who;
    }

    std::vector<fsal_ace_t>& aces_;
    fsal_aceflag_t flags_;
    bool directory_;
};

// What each class may do, after the mask.
struct Classes {
    Granted owner{}, group{}, other{};
    std::vector<Granted> users, groups;
    uint16_t any_user = 0, any_group = 0;  // the union of the named ones
};

Classes classify(const PosixAcl& acl) {
    uint16_t mask = all;
    for (const AclEntry& entry : acl) {
        if (entry.tag == AclTag::mask) mask = entry.permissions;
    }
    Classes classes;
    for (const AclEntry& of : acl) {
        Granted entry{of};
        if (entry.tag == AclTag::user || entry.tag == AclTag::group || entry.tag == AclTag::group_obj) {
            entry.withheld = static_cast<uint16_t>(entry.permissions & ~mask);
            entry.permissions &= mask;
        }
        switch (entry.tag) {
            case AclTag::user_obj:
                classes.owner = entry;
                break;
            case AclTag::group_obj:
                classes.group = entry;
                break;
            case AclTag::other:
                classes.other = entry;
                break;
            case AclTag::user:
                classes.users.push_back(entry);
                classes.any_user |= entry.permissions;
                break;
            case AclTag::group:
                classes.groups.push_back(entry);
                classes.any_group |= entry.permissions;
                break;
            case AclTag::mask:
                break;
        }
    }
    return classes;
}

void append(const PosixAcl& acl, fsal_aceflag_t flags, AclProtocol to, bool directory, std::vector<fsal_ace_t>& aces) {
    Classes classes = classify(acl);
    Writer writer(aces, flags, directory);
    auto without = [](uint16_t granted, const AclEntry& own) {
        return static_cast<uint16_t>(granted & ~own.permissions);
    };
    auto in_groups = static_cast<uint16_t>(classes.group.permissions | classes.any_group);
    auto beyond_users = static_cast<uint16_t>(in_groups | classes.other.permissions);

    writer.deny(classes.owner, without(static_cast<uint16_t>(classes.any_user | beyond_users), classes.owner));
    writer.allow(classes.owner);
    for (const Granted& user : classes.users) {
        writer.deny(user, without(beyond_users, user));
        writer.allow(user);
    }
    // All groups' grants come before any group's denial: who is in several has the rights of each.
    writer.allow(classes.group);
    for (const Granted& group : classes.groups) writer.allow(group);
    writer.deny(classes.group, without(classes.other.permissions, classes.group));
    for (const Granted& group : classes.groups) writer.deny(group, without(classes.other.permissions, group));
    if (to == AclProtocol::nfsacl) {
        for (const AclEntry& entry : acl) {
            if (entry.tag == AclTag::mask) writer.mask(entry);
        }
    }
    writer.allow(classes.other);
}

}  // namespace

std::vector<fsal_ace_t> to_nfs4(const PosixAcl& access, const PosixAcl& default_acl, AclProtocol protocol,
                                bool directory) {
    std::vector<fsal_ace_t> aces;
    append(access, 0, protocol, directory, aces);
    if (!default_acl.empty()) {
        append(default_acl, FSAL_ACE_FLAG_FILE_INHERIT | FSAL_ACE_FLAG_DIR_INHERIT | FSAL_ACE_FLAG_INHERIT_ONLY,
               protocol, directory, aces);
    }
    return aces;
}

}  // namespace fabric::fsal
