// The map that follows from who is registered and who runs: the same for all, written once for each epoch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "burstbuffer/pool/map_keeper.h"
#include "tests/unit/burstbuffer/pool/etcd_table.h"

namespace fabric::pool {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::EtcdTable;

const Keys keys("/c");

class Maps : public ::testing::Test {
  protected:
    Maps() { etcd.put(keys.cluster(), encode(ClusterRecord{"u", 1 << 20, 2})); }
    void registered(const std::string& name, NodeRecord::State state = NodeRecord::State::in) {
        etcd.put(keys.node(name), encode(NodeRecord{state, 1, ""}));
    }
    void runs(const std::string& name) {
        etcd.put(keys.member(name), encode(MemberRecord{name, "i", "p", {name + ":1"}, {}, ""}));
    }
    void ends(const std::string& name) { (void)etcd.call(etcd::Delete{keys.member(name), ""}, Time{}); }
    View view() const { return view_of(keys, etcd.all(), etcd.revision()); }
    static MapKeeper keeper(const std::string& name) { return MapKeeper({"/c", name, 60s, 200ms}); }
    // All see what is there, then each writes when it is its turn; how many wrote.
    int settle(std::vector<MapKeeper*> keepers) {
        int written = 0;
        for (int round = 0; round < 50; ++round) {
            for (MapKeeper* one : keepers) one->observe(view(), now);
            Time first = never;
            for (MapKeeper* one : keepers) first = std::min(first, one->wake());
            if (first == never || first > now + 20s) break;
            now = std::max(now, first);
            for (MapKeeper* one : keepers) {
                auto txn = one->next(now);
                if (!txn) continue;
                auto reply = etcd.call(*txn, Time{});
                written += reply->succeeded ? 1 : 0;
                one->answered(reply, now);
            }
        }
        return written;
    }
    // n1's, when n1 and n2 run and are in the map.
    MapKeeper keeper_of_two() {
        for (const char* name : {"n1", "n2"}) {
            registered(name);
            runs(name);
        }
        MapKeeper n1 = keeper("n1");
        settle({&n1});
        return n1;
    }
    MapRecord map() { return *decode<MapRecord>(etcd.at(keys.map())); }
    std::vector<std::string> shown() {
        std::vector<std::string> list;
        for (const MapNode& node : map().nodes) {
            list.push_back(node.name + (node.state == MapNode::State::up     ? " up"
                                        : node.state == MapNode::State::down ? " down"
                                                                             : " draining"));
        }
        return list;
    }

    EtcdTable etcd;
    Time now = 1000s;
};

TEST_F(Maps, HaveWhoIsRegisteredAndRuns) {
    registered("n1");
    registered("n2");
    registered("n3", NodeRecord::State::draining);
    registered("n4", NodeRecord::State::out);
    registered("n5");
    for (const char* name : {"n1", "n3", "n4", "n2"}) runs(name);
    MapKeeper n1 = keeper("n1"), n2 = keeper("n2");
    EXPECT_EQ(settle({&n2, &n1}), 1);
    EXPECT_THAT(shown(), ElementsAre("n1 up", "n2 up", "n3 draining"));
    EXPECT_EQ(map().epoch, 1);
    EXPECT_EQ(map().replicas, 2);
    EXPECT_THAT(map().nodes[0].addresses, ElementsAre("n1:1"));
    EXPECT_EQ(settle({&n1, &n2}), 0);
}

TEST_F(Maps, KeepANodeThatIsGoneForAGraceTime) {
    MapKeeper n1 = keeper_of_two();
    ends("n2");
    Time gone = now;
    EXPECT_EQ(settle({&n1}), 1);
    EXPECT_THAT(shown(), ElementsAre("n1 up", "n2 down"));
    EXPECT_THAT(map().nodes[1].addresses, ElementsAre("n2:1"));
    EXPECT_EQ(n1.wake(), gone + 60s);
    now = gone + 60s - 1ms;
    EXPECT_FALSE(n1.next(now).has_value());
    now = gone + 60s;
    EXPECT_EQ(settle({&n1}), 1);
    EXPECT_THAT(shown(), ElementsAre("n1 up"));
    EXPECT_EQ(map().epoch, 3);
    runs("n2");
    settle({&n1});
    EXPECT_THAT(shown(), ElementsAre("n1 up", "n2 up"));
}

TEST_F(Maps, ForgetTheGraceOfWhoCameBack) {
    MapKeeper n1 = keeper_of_two();
    ends("n2");
    settle({&n1});
    now += 50s;
    runs("n2");
    settle({&n1});
    ends("n2");
    settle({&n1});
    now += 30s;
    EXPECT_EQ(settle({&n1}), 0);
    EXPECT_THAT(shown(), ElementsAre("n1 up", "n2 down"));
}

TEST_F(Maps, OfTwoAtOnceOneIsWritten) {
    registered("n1");
    runs("n1");
    runs("n2");
    MapKeeper n1 = keeper("n1"), n2 = keeper("n2");
    n1.observe(view(), now);
    n2.observe(view(), now);
    now += 1s;
    auto first = n1.next(now), second = n2.next(now);
    ASSERT_TRUE(first && second);
    EXPECT_TRUE(etcd.call(*first, Time{})->succeeded);
    EXPECT_FALSE(etcd.call(*second, Time{})->succeeded);
    EXPECT_EQ(map().epoch, 1);
}

TEST_F(Maps, AreWrittenByTheNextWhenTheFirstDoesNot) {
    registered("n1");
    runs("n1");
    runs("n2");
    MapKeeper n1 = keeper("n1"), n2 = keeper("n2");
    n1.observe(view(), now);
    n2.observe(view(), now);
    EXPECT_EQ(n1.wake(), now);
    EXPECT_EQ(n2.wake(), now + 200ms);
    EXPECT_EQ(settle({&n2}), 1);
}

TEST_F(Maps, AreNotWrittenByWhoIsNoMemberOrOverWhatCannotBeRead) {
    registered("n1");
    MapKeeper n1 = keeper("n1");
    EXPECT_EQ(settle({&n1}), 0);
    runs("n1");
    etcd.put(keys.map(), "junk");
    EXPECT_EQ(settle({&n1}), 0);
    EXPECT_EQ(etcd.at(keys.map()).value, "junk");
}

}  // namespace
}  // namespace fabric::pool
