#include "xds/security/capability.h"

namespace fabric::xds::security {
namespace {

constexpr uint8_t ticket_kind = 'T', capability_kind = 'C', format = 1;
constexpr size_t seal_size = sizeof(Digest);
constexpr size_t epoch_at = 4;
// Bytes of a hello's body before the ticket, and of its reply's before the proof.
constexpr size_t hello_signed = 52, welcome_signed = 44;

struct Prefix {
    uint8_t kind = 0, version = format;
    uint16_t small = 0;  // rights or number of groups
    uint32_t epoch = 0;
    Id cluster{}, client{};
};

template <typename A>
void fields(A& a, wire::Access<A, Prefix>& m) {
    a("kind", m.kind);
    a("version", m.version);
    a("small", m.small);
    a("epoch", m.epoch);
    a("cluster", m.cluster);
    a("client", m.client);
}

template <typename A>
void rest(A& a, wire::Access<A, Capability>& m) {
    a("offset", m.offset);
    a("length", m.length);
    a("expiry_ns", m.expiry_ns);
    wire::fields(a, m.file);
}

template <typename A>
void rest(A& a, wire::Access<A, Ticket>& m) {
    a("expiry_ns", m.expiry_ns);
    a("uid", m.uid);
    a("gid", m.gid);
    for (auto& group : m.groups) a("group", group);
}

Status denied(const char* why) { return {Code::invalid, EACCES, why}; }

Bytes as_bytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

template <typename T>
Result<std::string> seal_as(const Keyring& keys, Prefix prefix, const T& content, Use use) {
    prefix.epoch = keys.signing_epoch();
    prefix.cluster = content.cluster;
    prefix.client = content.client;
    std::string out(wire::max_ticket, '\0');
    wire::Writer writer(std::as_writable_bytes(std::span(out.data(), out.size() - seal_size)));
    fields(writer, std::as_const(prefix));
    rest(writer, content);
    std::optional<Key> key = keys.working_key(prefix.epoch, use);
    if (!writer.ok() || !key) return Status::invalid("capability or ticket: a field is too long");
    out.resize(writer.size());
    Digest digest = hmac(*key, {}, {as_bytes(out)});
    out.append(reinterpret_cast<const char*>(digest.data()), digest.size());
    return out;
}

// The seal is checked before any field but the epoch is looked at.
Status check_seal(const Keyring& keys, std::string_view bytes, Use use) {
    if (bytes.size() > wire::max_ticket || bytes.size() < epoch_at + 4 + seal_size) return denied("wrong length");
    uint32_t epoch = 0;
    wire::Reader(as_bytes(bytes.substr(epoch_at, 4)))("epoch", epoch);
    std::optional<Key> key = keys.working_key(epoch, use);
    if (!key) return denied("signed with a key that is not (or no longer) in the key file");
    Digest claimed;
    std::memcpy(claimed.data(), bytes.data() + bytes.size() - seal_size, seal_size);
    if (!equal_in_constant_time(claimed, hmac(*key, {}, {as_bytes(bytes.substr(0, bytes.size() - seal_size))})))
        return denied("forged or damaged");
    return {};
}

template <typename T>
Status check_content(const Prefix& prefix, const T& content, const wire::Reader& reader, uint8_t kind,
                     const Expected& expected) {
    if (!reader.ok() || reader.left() != 0 || prefix.kind != kind || prefix.version != format)
        return denied("of a format that this version does not know");
    if (prefix.cluster != expected.cluster) return denied("of another cluster");
    if (content.expiry_ns <= expected.now_ns) return denied("expired");
    return {};
}

}  // namespace

bool Capability::covers(uint64_t at, uint64_t size) const {
    if (at < offset) return false;
    if (length == whole_file) return true;
    uint64_t into = at - offset;
    return into <= length && size <= length - into;
}

Result<std::string> seal(const Keyring& keys, const Capability& capability) {
    Prefix prefix;
    prefix.kind = capability_kind;
    prefix.small = capability.rights;
    return seal_as(keys, prefix, capability, Use::capability);
}

Result<std::string> seal(const Keyring& keys, const Ticket& ticket) {
    if (ticket.groups.size() > max_groups)
        return Status(Code::invalid, EOVERFLOW,
                      "ticket for uid " + std::to_string(ticket.uid) + ": " + std::to_string(ticket.groups.size()) +
                          " groups, but a ticket holds " + std::to_string(max_groups));
    Prefix prefix;
    prefix.kind = ticket_kind;
    prefix.small = static_cast<uint16_t>(ticket.groups.size());
    return seal_as(keys, prefix, ticket, Use::ticket);
}

Result<Capability> open_capability(const Keyring& keys, std::string_view bytes, const Expected& expected) {
    FABRIC_RETURN_IF_ERROR(check_seal(keys, bytes, Use::capability));
    wire::Reader reader(as_bytes(bytes.substr(0, bytes.size() - seal_size)));
    Prefix prefix;
    Capability capability;
    fields(reader, prefix);
    rest(reader, capability);
    capability.rights = prefix.small;
    capability.cluster = prefix.cluster;
    capability.client = prefix.client;
    FABRIC_RETURN_IF_ERROR(check_content(prefix, capability, reader, capability_kind, expected));
    return capability;
}

Result<Ticket> open_ticket(const Keyring& keys, std::string_view bytes, const Expected& expected) {
    FABRIC_RETURN_IF_ERROR(check_seal(keys, bytes, Use::ticket));
    wire::Reader reader(as_bytes(bytes.substr(0, bytes.size() - seal_size)));
    Prefix prefix;
    Ticket ticket;
    fields(reader, prefix);
    if (prefix.small > max_groups) return denied("too many groups");
    ticket.groups.resize(prefix.small);
    rest(reader, ticket);
    ticket.cluster = prefix.cluster;
    ticket.client = prefix.client;
    FABRIC_RETURN_IF_ERROR(check_content(prefix, ticket, reader, ticket_kind, expected));
    return ticket;
}

std::optional<Key> secret_of(const Keyring& keys, std::string_view ticket) {
    if (ticket.size() < epoch_at + 4) return std::nullopt;
    uint32_t epoch = 0;
    wire::Reader(as_bytes(ticket.substr(epoch_at, 4)))("epoch", epoch);
    std::optional<Key> key = keys.working_key(epoch, Use::secret);
    if (!key) return std::nullopt;
    return hmac(*key, {}, {as_bytes(ticket)});
}

Digest hello_proof(const Key& secret, Bytes hello_body) {
    return hmac(secret, "xds hello v1", {hello_body.first(std::min(hello_body.size(), hello_signed))});
}

Digest welcome_proof(const Key& secret, const Id& client_nonce, Bytes reply_body) {
    return hmac(secret, "xds welcome v1",
                {client_nonce, reply_body.first(std::min(reply_body.size(), welcome_signed))});
}

}  // namespace fabric::xds::security
