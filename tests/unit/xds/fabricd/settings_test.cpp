#include "xds/fabricd/settings.h"

#include <gtest/gtest.h>

namespace fabric::xds::fabricd {
namespace {

TEST(Settings, TheShippedExampleIsReadAndHoldsTheDefaults) {
    Result<Settings> shipped = load_settings(EXAMPLE);
    ASSERT_TRUE(shipped.ok()) << shipped.status().message();
    Result<Settings> least = parse_settings("xds: {root: /srv/data}\nmetrics: {listen: '127.0.0.1:9588'}", "least");
    ASSERT_TRUE(least.ok()) << least.status().message();
    const target::Config &a = shipped->target, &b = least->target;
    EXPECT_EQ(a.listen, b.listen);
    EXPECT_EQ(a.root, b.root);
    EXPECT_EQ(a.lanes, b.lanes);
    EXPECT_EQ(a.workers, b.workers);
    EXPECT_EQ(a.credits, b.credits);
    EXPECT_EQ(a.connections, b.connections);
    EXPECT_EQ(a.open_files, b.open_files);
    EXPECT_EQ(a.bytes_in_flight, b.bytes_in_flight);
    EXPECT_EQ(a.connection_bytes, b.connection_bytes);
    EXPECT_EQ(a.reserved_huge_pages, b.reserved_huge_pages);
    EXPECT_EQ(a.direct, b.direct);
    EXPECT_EQ(a.direct_from, b.direct_from);
    EXPECT_EQ(a.stall_seconds, b.stall_seconds);
    EXPECT_EQ(shipped->drain_seconds, least->drain_seconds);
    EXPECT_EQ(a.anonymous_uid, b.anonymous_uid);
    EXPECT_EQ(shipped->ticket_seconds, least->ticket_seconds);
    EXPECT_EQ(a.capability_seconds, b.capability_seconds);
    EXPECT_EQ(a.clock_seconds, b.clock_seconds);
    EXPECT_EQ(shipped->metrics, least->metrics);
}

TEST(Settings, ErrorsNameFileLineAndKey) {
    struct Case {
        const char* text;
        const char* expected;
    };
    for (const Case& one : {Case{"xds:\n  root: /a\n  rot: b", "conf:3: xds.rot: unknown key"},
                            Case{"xds:\n  root: /a\n\n  credits: 0", "conf:4: xds.credits: '0': expected a number"},
                            Case{"xds:\n  root: /a\n  bytes_in_flight: 5 apples", "conf:3: xds.bytes_in_flight"},
                            Case{"xds:\n  root: /a\n  bytes_in_flight: 99999999999TiB", "conf:3: xds.bytes_in_flight"},
                            Case{"xds:\n  root: [a]", "conf:2: xds.root: expected one value"},
                            Case{"xds:\n  root: /a\n  direct: maybe", "conf:3: xds.direct: 'maybe'"},
                            Case{"xds:\n  root: /a\nsecurity:\n  cluster: 12", "conf:4: security.cluster"},
                            Case{"xds:\n  root: /a\nxsd: {}", "conf:3: xsd: unknown section"},
                            Case{"xds: {root: /a", "conf:"}, Case{"xds: {lanes: 2}", "xds.root is missing"},
                            Case{"", "conf:1"}, Case{"xds: 5", "conf:1: xds: expected keys"},
                            Case{"xds: {root: /a}\nsecurity: {agent: /x}", "security.key_file is not"},
                            Case{"xds: {root: /a, connection_bytes: 1GiB}", "xds.connection_bytes is larger"}}) {
        Result<Settings> settings = parse_settings(one.text, "conf");
        ASSERT_FALSE(settings.ok()) << one.text;
        EXPECT_NE(settings.status().message().find(one.expected), std::string::npos) << settings.status().message();
    }
}

TEST(Settings, SizesHaveUnits) {
    Result<Settings> settings = parse_settings(
        "xds: {root: /a, bytes_in_flight: 1GiB, connection_bytes: 8388608, direct_from: 64KiB, huge_pages: reserved}",
        "conf");
    ASSERT_TRUE(settings.ok()) << settings.status().message();
    EXPECT_EQ(settings->target.bytes_in_flight, size_t{1} << 30);
    EXPECT_EQ(settings->target.connection_bytes, size_t{8} << 20);
    EXPECT_EQ(settings->target.direct_from, size_t{64} << 10);
    EXPECT_TRUE(settings->target.reserved_huge_pages);
}

}  // namespace
}  // namespace fabric::xds::fabricd
