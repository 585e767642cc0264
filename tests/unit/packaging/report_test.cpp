#include "packaging/probe/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace fabric::probe {
namespace {

using testing::HasSubstr;
using testing::Not;

Report sample() {
    Report report{"gateway", {}};
    Finding nfs4;
    nfs4.check = Check::nfs4;
    nfs4.port = 2049;
    nfs4.round_trips = summarize({300, 100, 200});
    nfs4.minor_versions = {0, 1, 2};
    Finding mount;
    mount.check = Check::mount;
    mount.status = Status{Code::unavailable, 111, "connection refused"};
    Finding exports;
    exports.check = Check::exports;
    exports.port = 20048;
    exports.list.exports = {{"/data", {"10.0.0.0/8"}}, {std::string("/bad\x1b[2J\xff"), {}}};
    report.findings = {nfs4, mount, exports};
    return report;
}

TEST(ReportTest, MedianOfOddEvenAndNone) {
    EXPECT_EQ(summarize({3, 1, 2}).median, 2);
    EXPECT_EQ(summarize({4, 1, 2, 3}).median, 2.5);
    EXPECT_EQ(summarize({4, 1, 2, 3}).min, 1);
    EXPECT_EQ(summarize({4, 1, 2, 3}).max, 4);
    EXPECT_EQ(summarize({}).count, 0);
}

TEST(ReportTest, TableShowsEachCheckAndEachExport) {
    std::string table = to_table(sample());
    EXPECT_THAT(table, HasSubstr("nfs4      2049  ok         0.100    0.200    0.300  minor versions 4.0 4.1 4.2\n"));
    EXPECT_THAT(table, HasSubstr("mount        -  FAILED         -        -        -  connection refused\n"));
    EXPECT_THAT(table, HasSubstr("export   /data  for 10.0.0.0/8\n"));
    EXPECT_THAT(table, HasSubstr("export   /bad\\x1b[2J\\xff  for everybody\n"));
    EXPECT_THAT(table, Not(HasSubstr("\x1b")));
}

TEST(ReportTest, JsonHoldsTheSame) {
    auto json = nlohmann::json::parse(to_json(sample()));
    EXPECT_EQ(json["host"], "gateway");
    EXPECT_EQ(json["ok"], false);
    ASSERT_EQ(json["checks"].size(), 3U);
    EXPECT_EQ(json["checks"][0]["rtt_us"]["median"], 200.0);
    EXPECT_EQ(json["checks"][0]["minor_versions"], (std::vector<int>{0, 1, 2}));
    EXPECT_EQ(json["checks"][1]["ok"], false);
    EXPECT_EQ(json["checks"][1]["error"], "connection refused");
    EXPECT_FALSE(json["checks"][1].contains("port"));
    EXPECT_EQ(json["checks"][2]["exports"][0]["groups"][0], "10.0.0.0/8");
    EXPECT_EQ(json["checks"][2]["exports"][1]["path"], "/bad\\x1b[2J\\xff");
}

}  // namespace
}  // namespace fabric::probe
