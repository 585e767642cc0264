// The oracle for the mapping is the kernel's rule for POSIX lists (acl(5), "Access check algorithm"), written out here,
// against NFSv4's (RFC 7530 §6.2.1: entries in order, the first that decides a bit counts).
#include "fsal_fabric/posix_acl.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace fabric::fsal {
namespace {

constexpr uint32_t no_id = UINT32_MAX;
constexpr uid_t owner_uid = 100;
constexpr gid_t owner_gid = 200;

struct Who {
    uid_t uid;
    std::vector<gid_t> groups;
    bool in(gid_t gid) const { return std::ranges::find(groups, gid) != groups.end(); }
};

bool posix_allows(const PosixAcl& acl, const Who& who, uint16_t right) {
    uint16_t mask = 7;
    for (const AclEntry& entry : acl) {
        if (entry.tag == AclTag::mask) mask = entry.permissions;
    }
    bool group_matched = false;
    for (const AclEntry& entry : acl) {
        if (entry.tag == AclTag::user_obj && who.uid == owner_uid) return entry.permissions & right;
        if (entry.tag == AclTag::user && who.uid == entry.id) return entry.permissions & mask & right;
        bool matches =
            (entry.tag == AclTag::group_obj && who.in(owner_gid)) || (entry.tag == AclTag::group && who.in(entry.id));
        if (matches) {
            group_matched = true;
            if (entry.permissions & mask & right) return true;
        }
        if (entry.tag == AclTag::other && !group_matched) return entry.permissions & right;
    }
    return false;
}

bool applies(const fsal_ace_t& ace, const Who& who) {
    if (ace.flag & FSAL_ACE_FLAG_INHERIT_ONLY) return false;
    if (ace.iflag & FSAL_ACE_IFLAG_SPECIAL_ID) {
        if (ace.who.uid == FSAL_ACE_SPECIAL_OWNER) return who.uid == owner_uid;
        if (ace.who.uid == FSAL_ACE_SPECIAL_GROUP) return who.in(owner_gid);
        return ace.who.uid == FSAL_ACE_SPECIAL_EVERYONE;
    }
    return ace.flag & FSAL_ACE_FLAG_GROUP_ID ? who.in(ace.who.gid) : who.uid == ace.who.uid;
}

bool nfs4_allows(const std::vector<fsal_ace_t>& aces, const Who& who, fsal_aceperm_t bit) {
    for (const fsal_ace_t& ace : aces) {
        if (applies(ace, who) && (ace.perm & bit)) return ace.type == FSAL_ACE_TYPE_ALLOW;
    }
    return false;
}

PosixAcl random_acl(std::mt19937& random, bool named) {
    auto permissions = [&] { return static_cast<uint16_t>(random() % 8); };
    PosixAcl acl{{AclTag::user_obj, permissions(), no_id}};
    auto add = [&](AclTag tag, uint32_t base) {
        uint32_t id = base;
        for (unsigned count = named ? random() % 4 : 0; count > 0; --count) {
            acl.push_back({tag, permissions(), id += 1 + random() % 2});
        }
    };
    size_t before = acl.size();
    add(AclTag::user, owner_uid);
    acl.push_back({AclTag::group_obj, permissions(), no_id});
    size_t between = acl.size();
    add(AclTag::group, owner_gid);
    if (between - before > 1 || acl.size() > between || random() % 4 == 0) {
        acl.push_back({AclTag::mask, permissions(), no_id});
    }
    acl.push_back({AclTag::other, permissions(), no_id});
    return acl;
}

Who random_who(std::mt19937& random) {
    Who who{static_cast<uid_t>(owner_uid + random() % 8), {}};
    for (unsigned count = random() % 4; count > 0; --count) who.groups.push_back(owner_gid + random() % 8);
    return who;
}

TEST(PosixAcl, AnNfs4ListGrantsExactlyWhatThePosixOneDoes) {
    std::mt19937 random(1);
    struct Right {
        uint16_t posix;
        fsal_aceperm_t nfs4;
    };
    for (int round = 0; round < 100'000; ++round) {
        PosixAcl acl = random_acl(random, true);
        bool directory = random() % 2;
        std::vector<fsal_ace_t> aces =
            to_nfs4(acl, {}, random() % 2 ? AclProtocol::nfs4 : AclProtocol::nfsacl, directory);
        Who who = random_who(random);
        for (Right right : {Right{4, FSAL_ACE_PERM_READ_DATA}, Right{2, FSAL_ACE_PERM_WRITE_DATA},
                            Right{2, FSAL_ACE_PERM_APPEND_DATA}, Right{1, FSAL_ACE_PERM_EXECUTE}}) {
            ASSERT_EQ(nfs4_allows(aces, who, right.nfs4), posix_allows(acl, who, right.posix))
                << "round " << round << " right " << right.posix << " uid " << who.uid;
        }
        ASSERT_TRUE(nfs4_allows(aces, who, FSAL_ACE_PERM_READ_ATTR));
        ASSERT_TRUE(nfs4_allows(aces, who, FSAL_ACE_PERM_READ_ACL));
        ASSERT_EQ(nfs4_allows(aces, who, FSAL_ACE_PERM_WRITE_ACL), who.uid == owner_uid);
        ASSERT_FALSE(nfs4_allows(aces, who, FSAL_ACE_PERM_WRITE_OWNER));
    }
}

// What the mask takes away is gone in NFSv4, so the way back gives the list with the mask applied.
PosixAcl with_mask_applied(PosixAcl acl) {
    uint16_t mask = 7, used = 0;
    bool named = false;
    for (const AclEntry& entry : acl) {
        if (entry.tag == AclTag::mask) mask = entry.permissions;
    }
    for (AclEntry& entry : acl) {
        bool masked = entry.tag == AclTag::user || entry.tag == AclTag::group || entry.tag == AclTag::group_obj;
        if (!masked) continue;
        entry.permissions &= mask;
        used |= entry.permissions;
        named = named || entry.tag != AclTag::group_obj;
    }
    if (!named) std::erase_if(acl, [](const AclEntry& entry) { return entry.tag == AclTag::mask; });
    for (AclEntry& entry : acl) {
        if (entry.tag == AclTag::mask) entry.permissions = used;
    }
    return acl;
}

TEST(PosixAcl, ComesBackFromNfs4) {
    std::mt19937 random(2);
    for (int round = 0; round < 50'000; ++round) {
        PosixAcl access = random_acl(random, true);
        bool directory = random() % 2;
        PosixAcl inherited = directory && random() % 2 ? random_acl(random, true) : PosixAcl{};
        Result<PosixAcls> back = to_posix(to_nfs4(access, inherited, AclProtocol::nfs4, directory), directory);
        ASSERT_TRUE(back.ok());
        ASSERT_EQ(back->access, with_mask_applied(access)) << round;
        ASSERT_EQ(back->default_acl, inherited.empty() ? inherited : with_mask_applied(inherited)) << round;
    }
}

// Whatever list a client sends: what is stored never grants what the client's list did not.
TEST(PosixAcl, AnArbitraryNfs4ListNeverGainsRights) {
    std::mt19937 random(3);
    for (int round = 0; round < 100'000; ++round) {
        std::vector<fsal_ace_t> aces(1 + random() % 6);
        for (fsal_ace_t& ace : aces) {
            ace = {};
            ace.type = random() % 2 ? FSAL_ACE_TYPE_ALLOW : FSAL_ACE_TYPE_DENY;
            ace.perm = random() & (FSAL_ACE_PERM_READ_DATA | FSAL_ACE_PERM_WRITE_DATA | FSAL_ACE_PERM_APPEND_DATA |
                                   FSAL_ACE_PERM_EXECUTE);
            switch (random() % 5) {
                case 0:
                    ace.iflag = FSAL_ACE_IFLAG_SPECIAL_ID, ace.who.uid = FSAL_ACE_SPECIAL_OWNER;
                    break;
                case 1:
                    ace.iflag = FSAL_ACE_IFLAG_SPECIAL_ID, ace.who.uid = FSAL_ACE_SPECIAL_GROUP;
                    break;
                case 2:
                    ace.iflag = FSAL_ACE_IFLAG_SPECIAL_ID, ace.who.uid = FSAL_ACE_SPECIAL_EVERYONE;
                    break;
                case 3:
                    ace.who.uid = owner_uid + random() % 4;
                    break;
                default:
                    ace.who.gid = owner_gid + random() % 4, ace.flag = FSAL_ACE_FLAG_GROUP_ID;
            }
        }
        Result<PosixAcls> acls = to_posix(aces, false);
        ASSERT_TRUE(acls.ok());
        Who who = random_who(random);
        if (posix_allows(acls->access, who, 4)) {
            ASSERT_TRUE(nfs4_allows(aces, who, FSAL_ACE_PERM_READ_DATA)) << round;
        }
        if (posix_allows(acls->access, who, 1)) {
            ASSERT_TRUE(nfs4_allows(aces, who, FSAL_ACE_PERM_EXECUTE)) << round;
        }
        if (posix_allows(acls->access, who, 2)) {
            ASSERT_TRUE(nfs4_allows(aces, who, FSAL_ACE_PERM_WRITE_DATA) &&
                        nfs4_allows(aces, who, FSAL_ACE_PERM_APPEND_DATA))
                << round;
        }
    }
}

TEST(PosixAcl, NamedEntriesComeInAnyOrderAndTheFirstOfAUserCounts) {
    PosixAcl acl{{AclTag::user_obj, 6, no_id}, {AclTag::user, 4, 9},          {AclTag::user, 2, 7},
                 {AclTag::user, 7, 9},         {AclTag::group_obj, 0, no_id}, {AclTag::group, 1, 8},
                 {AclTag::group, 4, 3},        {AclTag::mask, 7, no_id},      {AclTag::other, 0, no_id}};
    Result<PosixAcl> read = parse_posix_acl(encode_posix_acl(acl));
    ASSERT_TRUE(read.ok());
    acl.erase(acl.begin() + 3);
    EXPECT_EQ(*read, acl);
    std::swap(acl[0], acl[1]);
    EXPECT_FALSE(parse_posix_acl(encode_posix_acl(acl)).ok());
}

bool has_mask(const PosixAcl& acl) { return std::ranges::find(acl, AclTag::mask, &AclEntry::tag) != acl.end(); }

// Four entries with a mask like the group's: that is how Linux sends three.
PosixAcl without_made_up_mask(PosixAcl acl) {
    if (acl.size() == 4 && acl[1].tag == AclTag::group_obj && acl[2].tag == AclTag::mask &&
        acl[1].permissions == acl[2].permissions) {
        acl.erase(acl.begin() + 2);
    }
    return acl;
}

TEST(PosixAcl, ComesBackFromNfsacl) {
    std::mt19937 random(4);
    for (int round = 0; round < 50'000; ++round) {
        PosixAcl access = random_acl(random, true);
        if (!has_mask(access)) continue;
        bool directory = random() % 2;
        PosixAcl inherited = directory && random() % 2 ? random_acl(random, true) : PosixAcl{};
        std::vector<fsal_ace_t> aces = to_nfs4(access, inherited, AclProtocol::nfsacl, directory);
        ASSERT_TRUE(is_from_nfsacl(aces));
        ASSERT_FALSE(is_from_nfsacl(to_nfs4(access, inherited, AclProtocol::nfs4, directory)));
        PosixAcls back = from_nfsacl(aces);
        ASSERT_EQ(back.access, without_made_up_mask(access)) << round;
        ASSERT_EQ(back.default_acl, without_made_up_mask(inherited)) << round;
    }
}

TEST(PosixAcl, AMaskBoundsNamedEntriesAndGrantsNothing) {
    auto special = [](uid_t who, fsal_aceperm_t mask) {
        fsal_ace_t ace{};
        ace.perm = mask;
        ace.iflag = FSAL_ACE_IFLAG_SPECIAL_ID;
        ace.who.uid = who;
        return ace;
    };
    fsal_ace_t user{};
    user.perm = FSAL_ACE_PERM_READ_DATA;
    user.iflag = FSAL_ACE_FLAG_MASK_EXECUTE_DENY;
    user.who.uid = 7;
    std::vector<fsal_ace_t> aces{
        special(FSAL_ACE_SPECIAL_OWNER, FSAL_ACE_PERM_READ_DATA), user, special(FSAL_ACE_SPECIAL_GROUP, 0),
        special(FSAL_ACE_SPECIAL_MASK, FSAL_ACE_PERM_READ_DATA), special(FSAL_ACE_SPECIAL_EVERYONE, 0)};
    EXPECT_EQ(from_nfsacl(aces).access, (PosixAcl{{AclTag::user_obj, 4, no_id},
                                                  {AclTag::user, 5, 7},
                                                  {AclTag::group_obj, 0, no_id},
                                                  {AclTag::mask, 4, no_id},
                                                  {AclTag::other, 0, no_id}}));
    EXPECT_FALSE(to_posix(aces, false).ok());
}

TEST(PosixAcl, ListsWithoutAPosixFormAreRefused) {
    fsal_ace_t ace{};
    ace.type = FSAL_ACE_TYPE_AUDIT;
    EXPECT_FALSE(to_posix(std::span(&ace, 1), true).ok());
    ace.type = FSAL_ACE_TYPE_ALLOW;
    ace.flag = FSAL_ACE_FLAG_FILE_INHERIT;
    EXPECT_FALSE(to_posix(std::span(&ace, 1), true).ok());
    ace.flag = FSAL_ACE_FLAG_FILE_INHERIT | FSAL_ACE_FLAG_DIR_INHERIT;
    EXPECT_TRUE(to_posix(std::span(&ace, 1), true).ok());
    EXPECT_FALSE(to_posix(std::span(&ace, 1), false).ok());
    ace.flag |= FSAL_ACE_FLAG_NO_PROPAGATE;
    EXPECT_FALSE(to_posix(std::span(&ace, 1), true).ok());
}

TEST(PosixAcl, TheAttributeComesBackAndHasTheKernelsForm) {
    std::mt19937 random(4);
    for (int round = 0; round < 1000; ++round) {
        PosixAcl acl = random_acl(random, true);
        Result<PosixAcl> again = parse_posix_acl(encode_posix_acl(acl));
        ASSERT_TRUE(again.ok());
        ASSERT_EQ(*again, acl);
    }
    std::vector<uint8_t> bytes = encode_posix_acl({{AclTag::user_obj, 6, no_id},
                                                   {AclTag::user, 4, 0x01020304},
                                                   {AclTag::group_obj, 4, no_id},
                                                   {AclTag::mask, 4, no_id},
                                                   {AclTag::other, 0, no_id}});
    std::vector<uint8_t> expected{2,  0, 0, 0,                           // version
                                  1,  0, 6, 0, 0xff, 0xff, 0xff, 0xff,   // u::rw-
                                  2,  0, 4, 0, 4,    3,    2,    1,      // u:ID:r--
                                  4,  0, 4, 0, 0xff, 0xff, 0xff, 0xff,   // g::r--
                                  16, 0, 4, 0, 0xff, 0xff, 0xff, 0xff,   // m::r--
                                  32, 0, 0, 0, 0xff, 0xff, 0xff, 0xff};  // o::---
    EXPECT_EQ(bytes, expected);
}

TEST(PosixAcl, DamagedAttributesAreRefusedWithoutHarm) {
    std::mt19937 random(5);
    std::vector<uint8_t> good = encode_posix_acl(random_acl(random, true));
    for (size_t length = 0; length < good.size(); ++length) {
        if (length == 4) continue;  // a list without entries
        EXPECT_FALSE(parse_posix_acl(std::span(good).first(length)).ok()) << length;
    }
    for (int round = 0; round < 100'000; ++round) {
        std::vector<uint8_t> bytes = encode_posix_acl(random_acl(random, true));
        bytes[random() % bytes.size()] ^= static_cast<uint8_t>(1 << random() % 8);
        Result<PosixAcl> acl = parse_posix_acl(bytes);
        if (acl.ok()) {
            EXPECT_EQ(parse_posix_acl(encode_posix_acl(*acl)).value(), *acl);
        }
    }
}

TEST(PosixAcl, OnlyNamedEntriesOrAMaskSayMoreThanAMode) {
    EXPECT_FALSE(is_extended(acl_from_mode(0754)));
    EXPECT_EQ(acl_from_mode(0754),
              (PosixAcl{{AclTag::user_obj, 7, no_id}, {AclTag::group_obj, 5, no_id}, {AclTag::other, 4, no_id}}));
    PosixAcl acl = acl_from_mode(0754);
    acl.insert(acl.begin() + 2, {AclTag::mask, 7, no_id});
    EXPECT_TRUE(is_extended(acl));
}

}  // namespace
}  // namespace fabric::fsal
