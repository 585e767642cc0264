// Capabilities and tickets: what they say, how they are sealed, how they are checked. Formats: WIRE.md section 4.
#pragma once

#include <string>
#include <vector>

#include "xds/protocol/messages.h"
#include "xds/security/keyring.h"

namespace fabric::xds::security {

using Bytes = std::span<const std::byte>;

inline constexpr uint64_t whole_file = UINT64_MAX;
inline constexpr size_t max_groups = 224;

namespace rights {
inline constexpr uint16_t read = 1, write = 2;
}

// The right of one client to use one file.
struct Capability {
    uint16_t rights = 0;
    Id cluster{};
    Id client{};
    uint64_t offset = 0;  // bytes
    uint64_t length = whole_file;
    uint64_t expiry_ns = 0;  // since 1970
    wire::FileId file;       // a view of the caller's memory, or of the capability's bytes

    // True when [at, at + size) lies within the range. An empty range at its end does too.
    bool covers(uint64_t at, uint64_t size) const;
};

// Who somebody is: made by the agent of a node for a local user.
struct Ticket {
    Id cluster{};
    Id client{};
    uint64_t expiry_ns = 0;
    uint32_t uid = 0, gid = 0;
    std::vector<uint32_t> groups;
};

// Signed by the ring's signing epoch. Error: the handle or the groups are too many.
Result<std::string> seal(const Keyring& keys, const Capability& capability);
Result<std::string> seal(const Keyring& keys, const Ticket& ticket);

// What a checker expects beside a right seal.
struct Expected {
    Id cluster{};
    uint64_t now_ns = 0;
};

// EACCES, for whatever reason (the message says which, for the log and not for the peer): wrong format, unknown
// epoch, wrong seal, other cluster, expired.
Result<Capability> open_capability(const Keyring& keys, std::string_view bytes, const Expected& expected);
Result<Ticket> open_ticket(const Keyring& keys, std::string_view bytes, const Expected& expected);

// The secret that belongs to a ticket. Empty: its epoch is not in the ring, or it is too short to have one.
std::optional<Key> secret_of(const Keyring& keys, std::string_view ticket);

// The proofs of WIRE.md section 4, over an encoded body.
Digest hello_proof(const Key& secret, Bytes hello_body);
Digest welcome_proof(const Key& secret, const Id& client_nonce, Bytes reply_body);

}  // namespace fabric::xds::security
