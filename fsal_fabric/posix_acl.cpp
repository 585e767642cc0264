#include "fsal_fabric/posix_acl.h"

#include <sys/stat.h>

#include <algorithm>
#include <unordered_set>

namespace fabric::fsal {
namespace {

constexpr uint32_t xattr_version = 2;
constexpr size_t header_bytes = 4;
constexpr size_t entry_bytes = 8;
constexpr uint32_t no_id = UINT32_MAX;

uint32_t get(std::span<const uint8_t> bytes, size_t at, size_t width) {
    uint32_t value = 0;
    for (size_t i = 0; i < width; ++i) value |= static_cast<uint32_t>(bytes[at + i]) << (8 * i);
    return value;
}

void put(std::vector<uint8_t>& bytes, uint32_t value, size_t width) {
    for (size_t i = 0; i < width; ++i) bytes.push_back(static_cast<uint8_t>(value >> (8 * i)));
}

bool has_id(AclTag tag) { return tag == AclTag::user || tag == AclTag::group; }

bool known(uint32_t tag) {
    switch (static_cast<AclTag>(tag)) {
        case AclTag::user_obj:
        case AclTag::user:
        case AclTag::group_obj:
        case AclTag::group:
        case AclTag::mask:
        case AclTag::other:
            return true;
    }
    return false;
}

// As posix_acl_valid() in the kernel's fs/posix_acl.c sees it: in order of the tags, with each of the three plain
// entries there once and a mask where there are named ones. The order of named ones among themselves is anyone's.
bool sound(const PosixAcl& acl) {
    size_t user_objs = 0, group_objs = 0, others = 0, masks = 0, named = 0;
    for (size_t i = 0; i < acl.size(); ++i) {
        if (acl[i].permissions > 7) return false;
        if (i > 0 && acl[i].tag < acl[i - 1].tag) return false;
        user_objs += acl[i].tag == AclTag::user_obj;
        group_objs += acl[i].tag == AclTag::group_obj;
        others += acl[i].tag == AclTag::other;
        masks += acl[i].tag == AclTag::mask;
        named += has_id(acl[i].tag);
    }
    return user_objs == 1 && group_objs == 1 && others == 1 && masks <= 1 && (named == 0 || masks == 1);
}

}  // namespace

Result<PosixAcl> parse_posix_acl(std::span<const uint8_t> bytes) {
    if (bytes.size() < header_bytes || (bytes.size() - header_bytes) % entry_bytes != 0 ||
        get(bytes, 0, 4) != xattr_version) {
        return Status(Code::invalid, EINVAL, "not a POSIX ACL");
    }
    PosixAcl acl;
    std::unordered_set<uint32_t> users;
    for (size_t at = header_bytes; at < bytes.size(); at += entry_bytes) {
        uint32_t tag = get(bytes, at, 2);
        if (!known(tag)) return Status(Code::invalid, EINVAL, "unknown tag in a POSIX ACL");
        AclEntry entry{static_cast<AclTag>(tag), static_cast<uint16_t>(get(bytes, at + 2, 2)), get(bytes, at + 4, 4)};
        if (!has_id(entry.tag)) entry.id = no_id;
        // Of several entries for one user the kernel looks at the first.
        if (entry.tag == AclTag::user && !users.insert(entry.id).second) continue;
        acl.push_back(entry);
    }
    if (!acl.empty() && !sound(acl)) return Status(Code::invalid, EINVAL, "not a sound POSIX ACL");
    return acl;
}

std::vector<uint8_t> encode_posix_acl(const PosixAcl& acl) {
    std::vector<uint8_t> bytes;
    bytes.reserve(header_bytes + acl.size() * entry_bytes);
    put(bytes, xattr_version, 4);
    for (const AclEntry& entry : acl) {
        put(bytes, static_cast<uint32_t>(entry.tag), 2);
        put(bytes, entry.permissions, 2);
        put(bytes, has_id(entry.tag) ? entry.id : no_id, 4);
    }
    return bytes;
}

bool is_extended(const PosixAcl& acl) {
    return std::ranges::any_of(acl,
                               [](const AclEntry& entry) { return has_id(entry.tag) || entry.tag == AclTag::mask; });
}

PosixAcl acl_from_mode(mode_t mode) {
    auto bits = [&](int shift) { return static_cast<uint16_t>((mode >> shift) & 7); };
    return {{AclTag::user_obj, bits(6), no_id}, {AclTag::group_obj, bits(3), no_id}, {AclTag::other, bits(0), no_id}};
}

}  // namespace fabric::fsal
