#include "xds/security/capability.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "xds/protocol/codec.h"

namespace fabric::xds::security {
namespace {

constexpr uint64_t now = 1'700'000'000'000'000'000;

Id id(unsigned value) {
    Id result{};
    result[0] = static_cast<std::byte>(value);
    return result;
}

std::shared_ptr<Keyring> ring(const std::string& text) {
    auto parsed = Keyring::parse(text, "test");
    EXPECT_TRUE(parsed.ok()) << parsed.status().message();
    return *parsed;
}
const std::string key_1 = "1 " + std::string(64, '1') + "\n", key_2 = "2 " + std::string(64, '2') + "\n";

Capability sample() {
    Capability c;
    c.rights = rights::read;
    c.cluster = id(1);
    c.client = id(2);
    c.offset = 4096;
    c.length = 8192;
    c.expiry_ns = now + 1;
    c.file = {id(3), 1, "handle"};
    return c;
}
Ticket user() { return {id(1), id(2), now + 1, 1000, 100, {4, 24, 1000}}; }
const Expected expected{id(1), now};

TEST(Capability, SealedAndOpenedIsTheSame) {
    auto keys = ring(key_1);
    auto bytes = seal(*keys, sample());
    ASSERT_TRUE(bytes.ok());
    auto opened = open_capability(*keys, *bytes, expected);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    EXPECT_EQ(opened->rights, rights::read);
    EXPECT_EQ(opened->client, id(2));
    EXPECT_EQ(opened->offset, 4096u);
    EXPECT_EQ(opened->length, 8192u);
    EXPECT_EQ(opened->file.file_system, id(3));
    EXPECT_EQ(opened->file.handle, "handle");
}

TEST(Capability, EveryChangedBitAndEveryCutIsRefused) {
    auto keys = ring(key_1 + key_2);
    std::string bytes = *seal(*keys, sample());
    for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
        std::string forged = bytes;
        forged[bit / 8] = static_cast<char>(forged[bit / 8] ^ (1 << (bit % 8)));
        auto opened = open_capability(*keys, forged, expected);
        ASSERT_FALSE(opened.ok()) << bit;
        EXPECT_EQ(opened.status().errno_value(), EACCES);
    }
    for (size_t length = 0; length < bytes.size(); ++length)
        EXPECT_FALSE(open_capability(*keys, std::string_view(bytes).substr(0, length), expected).ok());
    EXPECT_FALSE(open_capability(*keys, bytes + "x", expected).ok());
    EXPECT_TRUE(open_capability(*keys, bytes, expected).ok());
}

TEST(Capability, ExpiredOtherClusterOtherKeyAreRefused) {
    auto keys = ring(key_1);
    std::string bytes = *seal(*keys, sample());
    EXPECT_FALSE(open_capability(*keys, bytes, {id(1), now + 1}).ok());
    EXPECT_FALSE(open_capability(*keys, bytes, {id(9), now}).ok());
    EXPECT_FALSE(open_capability(*ring("1 " + std::string(64, '3')), bytes, expected).ok());
}

TEST(Capability, ATicketIsNoCapabilityAndViceVersa) {
    auto keys = ring(key_1);
    EXPECT_FALSE(open_capability(*keys, *seal(*keys, user()), expected).ok());
    EXPECT_FALSE(open_ticket(*keys, *seal(*keys, sample()), expected).ok());
}

// The three steps of a rotation: at none of them is what was valid refused.
TEST(Capability, RotationWithoutRestart) {
    auto keys = ring(key_1);
    std::string old = *seal(*keys, sample());
    keys->replace(*ring(key_1 + key_2 + "sign 1"));
    EXPECT_TRUE(open_capability(*keys, old, expected).ok());
    std::string between = *seal(*keys, sample());
    EXPECT_TRUE(open_capability(*ring(key_1), between, expected).ok()) << "a node without the new key";
    keys->replace(*ring(key_1 + key_2));
    std::string fresh = *seal(*keys, sample());
    EXPECT_TRUE(open_capability(*keys, old, expected).ok());
    keys->replace(*ring(key_2));
    EXPECT_TRUE(open_capability(*keys, fresh, expected).ok());
    EXPECT_FALSE(open_capability(*keys, old, expected).ok());
}

TEST(Capability, RangeArithmeticDoesNotWrap) {
    Capability c = sample();
    EXPECT_TRUE(c.covers(4096, 8192));
    EXPECT_TRUE(c.covers(12288, 0));
    EXPECT_FALSE(c.covers(4095, 1));
    EXPECT_FALSE(c.covers(4096, 8193));
    EXPECT_FALSE(c.covers(12289, 0));
    EXPECT_FALSE(c.covers(5000, UINT64_MAX));
    EXPECT_FALSE(c.covers(UINT64_MAX, UINT64_MAX));
    c.offset = 0;
    c.length = whole_file;
    EXPECT_TRUE(c.covers(UINT64_MAX, UINT64_MAX));
}

TEST(Ticket, CarriesUserAndGroups) {
    auto keys = ring(key_1);
    Ticket ticket = user();
    auto opened = open_ticket(*keys, *seal(*keys, ticket), expected);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    EXPECT_EQ(opened->uid, 1000u);
    EXPECT_EQ(opened->gid, 100u);
    EXPECT_EQ(opened->groups, ticket.groups);
    ticket.groups.assign(max_groups, 7);
    opened = open_ticket(*keys, *seal(*keys, ticket), expected);
    ASSERT_TRUE(opened.ok());
    EXPECT_EQ(opened->groups.size(), max_groups);
    ticket.groups.push_back(7);
    EXPECT_EQ(seal(*keys, ticket).status().errno_value(), EOVERFLOW);
}

TEST(Ticket, TheSecretBelongsToThatTicketAndEpoch) {
    auto keys = ring(key_1 + key_2);
    Ticket ticket = user();
    std::string bytes = *seal(*keys, ticket);
    ticket.uid = 0;
    std::string other = *seal(*keys, ticket);
    EXPECT_EQ(secret_of(*keys, bytes), secret_of(*ring(key_2), bytes));
    EXPECT_NE(secret_of(*keys, bytes), secret_of(*keys, other));
    EXPECT_FALSE(secret_of(*ring(key_1), bytes));
    EXPECT_FALSE(secret_of(*keys, "short"));
}

TEST(Proof, CoversEveryFieldBeforeTheTicket) {
    wire::Hello hello;
    hello.ticket = "ticket";
    std::vector<std::byte> bytes(wire::max_message);
    size_t size = *wire::encode({}, hello, bytes);
    std::span<std::byte> body = std::span(bytes).first(size).subspan(wire::header_size);
    Digest proof = hello_proof(Key{}, body);
    for (size_t at = 0; at < 52; ++at) {
        body[at] ^= std::byte{1};
        EXPECT_NE(hello_proof(Key{}, body), proof) << at;
        body[at] ^= std::byte{1};
    }
    EXPECT_EQ(static_cast<int>(body[52]), 6) << "the ticket's length stands behind the signed part";
    wire::HelloReply reply;
    reply.proof.fill(std::byte{0xee});
    size = *wire::encode({}, reply, bytes);
    body = std::span(bytes).first(size).subspan(wire::header_size);
    EXPECT_EQ(body[44], std::byte{0xee});
    EXPECT_NE(body[43], std::byte{0xee});
    EXPECT_NE(welcome_proof(Key{}, id(1), body), welcome_proof(Key{}, id(2), body));
}

// Seeded mutations with the seal made right again: the parser behind the seal gets every nonsense, too.
TEST(Capability, MutatedAndResealedNeverCrashes) {
    auto keys = ring(key_1);
    std::mt19937_64 random(5);
    Key ticket_key = *keys->working_key(1, Use::ticket), capability_key = *keys->working_key(1, Use::capability);
    std::string ticket = *seal(*keys, user()), capability = *seal(*keys, sample());
    int opened = 0;
    for (int round = 0; round < 40000; ++round) {
        bool as_ticket = random() % 2 == 0;
        std::string bytes = as_ticket ? ticket : capability;
        bytes.resize(bytes.size() - 32);
        for (size_t edits = random() % 3 + 1; edits > 0; --edits) {
            size_t at = random() % bytes.size();
            if (random() % 6 == 0 && at > 8) bytes.resize(at);
            if (at < bytes.size() && (at < 4 || at >= 8)) bytes[at] = static_cast<char>(random());
        }
        Digest digest = hmac(as_ticket ? ticket_key : capability_key, {}, {std::as_bytes(std::span(bytes))});
        bytes.append(reinterpret_cast<char*>(digest.data()), digest.size());
        opened += as_ticket ? open_ticket(*keys, bytes, expected).ok() : open_capability(*keys, bytes, expected).ok();
    }
    EXPECT_GT(opened, 100);
}

}  // namespace
}  // namespace fabric::xds::security
