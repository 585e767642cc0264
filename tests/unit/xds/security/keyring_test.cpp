#include "xds/security/keyring.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <vector>

namespace fabric::xds::security {
namespace {

const std::string key_a(64, 'a'), key_b(64, 'B');

TEST(Hmac, Rfc4231TestCase2And1) {
    // The RFC's keys are shorter than a block; HMAC pads with zeros, so a zero-padded key gives the same digest.
    Key jefe{};
    std::memcpy(jefe.data(), "Jefe", 4);
    Digest digest = hmac(jefe, "what do ya want for nothing?");
    const unsigned char expected[] = {0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e, 0x6a, 0x04, 0x24,
                                      0x26, 0x08, 0x95, 0x75, 0xc7, 0x5a, 0x00, 0x3f, 0x08, 0x9d, 0x27,
                                      0x39, 0x83, 0x9d, 0xec, 0x58, 0xb9, 0x64, 0xec, 0x38, 0x43};
    EXPECT_EQ(std::memcmp(digest.data(), expected, sizeof expected), 0);
    const std::string rest = " want for nothing?";
    EXPECT_EQ(hmac(jefe, "what do ya", {std::as_bytes(std::span(rest))}), digest);
}

TEST(Keyring, HighestEpochSignsUnlessTold) {
    auto ring = Keyring::parse("# cluster keys\n1 " + key_a + "\n2 " + key_b + "  # new\n", "keys");
    ASSERT_TRUE(ring.ok()) << ring.status().message();
    EXPECT_EQ((*ring)->signing_epoch(), 2u);
    EXPECT_NE((*ring)->working_key(1, Use::ticket), (*ring)->working_key(2, Use::ticket));
    EXPECT_NE((*ring)->working_key(1, Use::ticket), (*ring)->working_key(1, Use::capability));
    EXPECT_NE((*ring)->working_key(1, Use::secret), (*ring)->working_key(1, Use::capability));
    EXPECT_FALSE((*ring)->working_key(3, Use::ticket));
    auto told = Keyring::parse("sign 1\n1 " + key_a + "\n2 " + key_b, "keys");
    ASSERT_TRUE(told.ok());
    EXPECT_EQ((*told)->signing_epoch(), 1u);
}

TEST(Keyring, ErrorsNameTheLineAndNeverTheKey) {
    for (const std::string& bad : std::vector<std::string>{
             "1 " + key_a + "f", "1", "x " + key_a, "1 " + std::string(64, 'g'), "1 " + key_a + " 2",
             "1 " + key_a + "\n1 " + key_b, "sign 7\n1 " + key_a, "# nothing"}) {
        auto ring = Keyring::parse(bad, "/etc/fabric/xds.keys");
        ASSERT_FALSE(ring.ok()) << bad;
        EXPECT_EQ(ring.status().message().find("/etc/fabric/xds.keys"), 0u);
        EXPECT_EQ(ring.status().message().find("aaaa"), std::string::npos);
    }
}

TEST(Keyring, AFileThatOthersCanReadIsRefused) {
    std::string path = testing::TempDir() + "keys." + std::to_string(getpid());
    std::ofstream(path) << "1 " << key_a << "\n";
    chmod(path.c_str(), 0644);
    EXPECT_FALSE(Keyring::load(path).ok());
    chmod(path.c_str(), 0600);
    EXPECT_TRUE(Keyring::load(path).ok());
    unlink(path.c_str());
    EXPECT_EQ(Keyring::load(path).status().errno_value(), ENOENT);
}

}  // namespace
}  // namespace fabric::xds::security
