// The pool's records: as ETCD.md shows them, and what of them is refused by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "burstbuffer/pool/records.h"

namespace fabric::pool {
namespace {

using testing::HasSubstr;

etcd::KeyValue key(std::string value) { return {"/fabric/c1/key", std::move(value), 1, 1, 1, 0}; }

template <typename Record>
void stays_the_same(const Record& record, const std::string& text) {
    EXPECT_EQ(encode(record), text);
    Result<Record> back = decode<Record>(key(text));
    ASSERT_TRUE(back.ok()) << back.status().message();
    EXPECT_EQ(*back, record);
}

TEST(Records, AreWhatIsWrittenDown) {
    stays_the_same(ClusterRecord{"0b6c", 1 << 20, 2},
                   R"({"chunk_size":1048576,"format":1,"replicas":2,"uuid":"0b6c"})");
    stays_the_same(NodeRecord{NodeRecord::State::draining, 2.5, "r1"},
                   R"({"rack":"r1","state":"draining","weight":2.5})");
    stays_the_same(MemberRecord{"n1", "id", "p", {"10.0.0.1:7640", "[fe80::1]:7640"}, {{"/d0", 5}}, "0.1.0"},
                   R"({"addresses":["10.0.0.1:7640","[fe80::1]:7640"],"disks":[{"capacity":5,"folder":"/d0"}],)"
                   R"("identity":"id","name":"n1","process":"p","version":"0.1.0"})");
    stays_the_same(
        MapRecord{7, 1 << 20, 1, {{"n1", MapNode::State::up, 1, "", {"h:1"}}, {"n2", MapNode::State::down, 1, "", {}}}},
        R"({"chunk_size":1048576,"epoch":7,"nodes":[{"addresses":["h:1"],"name":"n1","rack":"","state":"up",)"
        R"("weight":1.0},{"addresses":[],"name":"n2","rack":"","state":"down","weight":1.0}],"replicas":1})");
    stays_the_same(OwnerRecord{"n1", 42, {"n2"}}, R"({"incarnation":42,"node":"n1","replicas":["n2"]})");
    stays_the_same(OwnerRecord{"n2", 43, {}, {"n1"}, "n3", {{"n1", 42}}},
                   R"({"former":[{"incarnation":42,"node":"n1"}],"incarnation":43,"joining":"n3","keeping":["n1"],)"
                   R"("node":"n2","replicas":[]})");
    stays_the_same(JobRecord{{"/srv/a"}, "n1", JobRecord::State::cancelled, 1, 2, 3, 4, 5},
                   R"({"bytes":3,"done_bytes":4,"done_files":2,"failed_files":5,"files":1,"node":"n1",)"
                   R"("paths":["/srv/a"],"state":"cancelled"})");
    stays_the_same(KeyEpochRecord{3, 2}, R"({"current":3,"oldest":2})");
}

TEST(Records, SkipFieldsThatALaterVersionHas) {
    EXPECT_TRUE(decode<KeyEpochRecord>(key(R"({"current":3,"later":{"a":[1]},"oldest":2})")).ok());
}

template <typename Record>
void refuses(const std::string& value, const std::string& complaint) {
    Result<Record> record = decode<Record>(key(value));
    ASSERT_FALSE(record.ok()) << value;
    EXPECT_EQ(record.status().code(), Code::corrupt);
    EXPECT_THAT(record.status().message(), HasSubstr("etcd key /fabric/c1/key: " + complaint));
}

TEST(Records, RefuseWhatIsWrongByKeyAndField) {
    refuses<KeyEpochRecord>("", "value is no JSON object");
    refuses<KeyEpochRecord>("[]", "value is no JSON object");
    refuses<KeyEpochRecord>("{}", "current is missing");
    refuses<KeyEpochRecord>(R"({"current":"3","oldest":2})", "current is no whole number");
    refuses<KeyEpochRecord>(R"({"current":1.5,"oldest":2})", "current is no whole number");
    refuses<KeyEpochRecord>(R"({"current":18446744073709551615,"oldest":2})", "current is not from 1");
    refuses<KeyEpochRecord>(R"({"current":-3,"oldest":2})", "current is not from 1");
    refuses<KeyEpochRecord>(R"({"current":1,"oldest":2})", "oldest is above current");
    refuses<KeyEpochRecord>(std::string(longest_record + 1, ' '), "value is 1048577 bytes long");
    refuses<ClusterRecord>(R"({"chunk_size":1048576,"format":2,"replicas":2,"uuid":"0"})", "format is 2");
    refuses<ClusterRecord>(R"({"chunk_size":1000000,"format":1,"replicas":2,"uuid":"0"})", "chunk_size is no power");
    refuses<ClusterRecord>(R"({"chunk_size":1048576,"format":1,"replicas":9,"uuid":"0"})",
                           "replicas is not from 1 to 8");
    refuses<NodeRecord>(R"({"rack":"","state":"gone","weight":1})", "state is none that is known");
    refuses<NodeRecord>(R"({"rack":"","state":"in","weight":0})", "weight is no number from");
    refuses<NodeRecord>(R"({"rack":"","state":"in","weight":1e300})", "weight is no number from");
    refuses<NodeRecord>(R"({"rack":"a/b","state":"in","weight":1})", "rack is no name");
    refuses<MemberRecord>(R"({"name":"../x"})", "name is no node's name");
    refuses<MemberRecord>(R"({"name":"n","identity":"i","process":"p","addresses":[],"disks":[],"version":""})",
                          "addresses is empty");
    refuses<MemberRecord>(
        R"({"name":"n","identity":"i","process":"p","addresses":["h:1","h:1"],"disks":[],"version":""})",
        "addresses has an entry twice");
    refuses<MemberRecord>(R"({"name":"n","identity":"i","process":"p","addresses":["h:0"],"disks":[],"version":""})",
                          "addresses has an entry that is wrong");
    refuses<MemberRecord>(R"({"name":"n","identity":"i","process":"p","addresses":["h:1"],"disks":[7],"version":""})",
                          "disks.value is no JSON object");
    refuses<MapRecord>(
        R"({"epoch":1,"chunk_size":1048576,"replicas":1,"nodes":[)"
        R"({"name":"b","state":"up","weight":1,"addresses":[]},{"name":"a","state":"up","weight":1,"addresses":[]}]})",
        "nodes is not in the order of names");
    refuses<OwnerRecord>(R"({"node":"n1","incarnation":0,"replicas":[]})", "incarnation is not from 1");
    refuses<OwnerRecord>(R"({"node":"n1","incarnation":1,"replicas":[],"joining":7})", "joining is no text");
    refuses<OwnerRecord>(R"({"node":"n1","incarnation":1,"replicas":[],"former":[{"node":"n2"}]})",
                         "former's incarnation is missing");
}

TEST(Names, ArePartsOfAKey) {
    for (const char* name : {"n1", "rack-3.node_7", "A"}) EXPECT_TRUE(is_name(name)) << name;
    for (const char* name : {"", ".", "..", "a/b", "a b", "\xc3\xa4", "a\n"}) EXPECT_FALSE(is_name(name)) << name;
    EXPECT_FALSE(is_name(std::string(65, 'a')));
}

TEST(Addresses, AreHostAndPort) {
    for (const char* one : {"h:1", "10.0.0.1:65535", "[::1]:7640", "a-b.example:80"})
        EXPECT_TRUE(is_address(one)) << one;
    for (const char* one : {"h", "h:", ":1", "h:0", "h:65536", "h:1x", "::1:7640", "h/:1", "h:01"}) {
        EXPECT_FALSE(is_address(one)) << one;
    }
}

TEST(Records, SurviveDamage) {
    std::mt19937 random(7);
    const std::string whole = encode(MapRecord{7, 1 << 20, 1, {{"n1", MapNode::State::up, 1, "", {"h:1"}}}});
    for (int round = 0; round < 10'000; ++round) {
        std::string value = whole;
        for (unsigned change = random() % 3 + 1; change > 0; --change)
            value[random() % value.size()] = static_cast<char>(random());
        (void)decode<MapRecord>(key(value));
        (void)decode<MemberRecord>(key(value));
    }
}

}  // namespace
}  // namespace fabric::pool
