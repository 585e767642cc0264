// What is at etcd as a whole, and whether a node can be taken away.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "burstbuffer/pool/view.h"

namespace fabric::pool {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Views : public testing::Test {
  protected:
    void add(const std::string& key, const std::string& value, etcd::Revision created = 1) {
        all.push_back({key, value, created, created, 1, 0});
    }
    void add_node(const std::string& name, NodeRecord::State state = NodeRecord::State::in) {
        add(keys.node(name), encode(NodeRecord{state, 1, ""}));
    }
    void add_member(const std::string& name, etcd::Revision incarnation) {
        add(keys.member(name), encode(MemberRecord{name, "i", "p", {name + ":1"}, {}, ""}), incarnation);
    }
    View view() const { return view_of(keys, all, 99); }

    Keys keys{"/fabric/c1"};
    std::vector<etcd::KeyValue> all;
};

TEST_F(Views, HaveWhatIsThere) {
    add(keys.cluster(), encode(ClusterRecord{"u", 1 << 20, 2}));
    add(keys.map(), encode(MapRecord{3, 1 << 20, 2, {}}));
    add_node("n1");
    add_member("n1", 7);
    add(keys.owner("ab"), encode(OwnerRecord{"n1", 7, {}}));
    add(keys.address("n1:1"), "n1");
    View view = this->view();
    EXPECT_THAT(view.problems, ElementsAre());
    EXPECT_EQ(view.cluster->uuid, "u");
    EXPECT_EQ(view.map->epoch, 3);
    EXPECT_EQ(view.nodes.at("n1").modified, 1);
    EXPECT_EQ(view.members.at("n1").incarnation, 7);
    ASSERT_EQ(view.owned.size(), 1U);
    EXPECT_EQ(view.owned[0].what, "owners/ab");
}

TEST_F(Views, NameWhatIsWrongAndGoOn) {
    add(keys.cluster(), "{");
    add(keys.nodes() + "a/b", encode(NodeRecord{}));
    add(keys.member("n2"), encode(MemberRecord{"n1", "i", "p", {"h:1"}, {}, ""}));
    add_node("n1");
    View view = this->view();
    EXPECT_EQ(view.nodes.size(), 1U);
    EXPECT_TRUE(view.members.empty());
    EXPECT_THAT(view.problems,
                ElementsAre(HasSubstr("/fabric/c1/cluster: value"), HasSubstr("/fabric/c1/nodes/a/b: its last part"),
                            HasSubstr("/fabric/c1/members/n2: name is not")));
}

TEST_F(Views, ANodeThatAloneHasBytesStays) {
    add(keys.owner("ab"), encode(OwnerRecord{"n1", 7, {}}));
    add_member("n1", 7);
    add_member("n2", 8);
    EXPECT_THAT(without(view(), "n1").reasons, ElementsAre(HasSubstr("owners/ab")));
    EXPECT_TRUE(without(view(), "n2").safe);
}

TEST_F(Views, ARunningReplicaIsEnough) {
    add(keys.drain("r"), encode(OwnerRecord{"n1", 7, {"n2"}}));
    add_member("n1", 7);
    // n2 does not run.
    EXPECT_FALSE(without(view(), "n1").safe);
    add_member("n2", 8);
    EXPECT_TRUE(without(view(), "n1").safe);
    EXPECT_THAT(without(view(), "n1").notes, ElementsAre(HasSubstr("one copy fewer")));
    // The replica of an owner that runs, but not of one that came back as another incarnation.
    EXPECT_TRUE(without(view(), "n2").safe);
    all[1].create_revision = 9;
    EXPECT_FALSE(without(view(), "n2").safe);
}

TEST_F(Views, WhatCannotBeReadMayBeLost) {
    add(keys.owner("ab"), "junk");
    EXPECT_THAT(without(view(), "n1").reasons, ElementsAre(HasSubstr("cannot be judged")));
}

TEST_F(Views, TooFewNodesAreNoLoss) {
    add(keys.cluster(), encode(ClusterRecord{"u", 1 << 20, 2}));
    add_node("n1");
    add_node("n2");
    add_node("n3", NodeRecord::State::draining);
    Verdict verdict = without(view(), "n1");
    EXPECT_TRUE(verdict.safe);
    EXPECT_THAT(verdict.notes, ElementsAre(HasSubstr("1 nodes would be left, fewer than the 2 replicas")));
}

}  // namespace
}  // namespace fabric::pool
