// Who owns undrained bytes: etcd decides by member keys, whatever a node believes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "burstbuffer/pool/ownership.h"
#include "tests/unit/burstbuffer/pool/etcd_table.h"

namespace fabric::pool {
namespace {

using testing::EtcdTable;
using ::testing::HasSubstr;

const Keys keys("/c");
const std::string file = keys.owner("ab");

class Owners : public ::testing::Test {
  protected:
    etcd::Revision run(const std::string& name) {
        auto lease = etcd.call(etcd::Grant{20}, Time{})->lease;
        leases[name] = lease;
        (void)etcd.call(etcd::Put{keys.member(name), "m", lease}, Time{});
        return etcd.created(keys.member(name));
    }
    void end(const std::string& name) { (void)etcd.call(etcd::Revoke{leases[name]}, Time{}); }
    Ownership::Claim ask(Ownership& node, const Result<etcd::Txn>& txn) {
        EXPECT_TRUE(txn.ok()) << txn.status().message();
        auto claim = node.claimed(txn.value(), *etcd.call(txn.value(), Time{}));
        EXPECT_TRUE(claim.ok()) << claim.status().message();
        return *claim;
    }
    OwnerRecord record() { return *decode<OwnerRecord>(etcd.at(file)); }

    EtcdTable etcd;
    std::map<std::string, etcd::Lease> leases;
    Ownership n1{"/c", "n1"}, n2{"/c", "n2"};
};

TEST_F(Owners, AreMembers) {
    EXPECT_EQ(n1.claim(file, {}).status().code(), Code::unavailable);
    n1.member(run("n1"));
    EXPECT_TRUE(ask(n1, n1.claim(file, {"n2"})).ours);
    EXPECT_TRUE(n1.owns(file));
    EXPECT_EQ(record(), (OwnerRecord{"n1", n1.incarnation(), {"n2"}}));
    // Who believes to be a member but is none does not get it.
    auto late = n1.claim(keys.owner("cd"), {});
    end("n1");
    EXPECT_FALSE(etcd.call(*late, Time{})->succeeded);
}

TEST_F(Owners, AreOneAtATime) {
    n1.member(run("n1"));
    n2.member(run("n2"));
    EXPECT_TRUE(ask(n1, n1.claim(file, {})).ours);
    Ownership::Claim second = ask(n2, n2.claim(file, {}));
    EXPECT_FALSE(second.ours);
    EXPECT_EQ(second.owner.node, "n1");
    EXPECT_FALSE(n2.owns(file));
    // Asked again, as after a lost answer.
    EXPECT_TRUE(ask(n1, n1.claim(file, {})).ours);
}

TEST_F(Owners, AreFollowedOnlyWhenTheirKeyIsGone) {
    n1.member(run("n1"));
    n2.member(run("n2"));
    ask(n1, n1.claim(file, {"n2"}));
    Ownership::Claim seen = ask(n2, n2.claim(file, {}));
    EXPECT_FALSE(ask(n2, n2.take_over(file, seen)).ours);
    end("n1");
    EXPECT_TRUE(ask(n2, n2.take_over(file, seen)).ours);
    EXPECT_EQ(record(), (OwnerRecord{"n2", n2.incarnation(), {}, {"n1"}, "", {{"n1", n1.incarnation()}}}));
    // The one before comes back as another incarnation and finds it gone; it has a copy, but n2 is there.
    n1.member(run("n1"));
    EXPECT_FALSE(n1.owns(file));
    Ownership::Claim back = ask(n1, n1.claim(file, {}));
    EXPECT_EQ(back.owner.node, "n2");
    EXPECT_FALSE(ask(n1, n1.take_over(file, back)).ours);
}

// Rules 8, 12 and 14: what a take-over has to go through before it is as any other ownership.
TEST_F(Owners, NameWhoOwnedBeforeUntilItIsNotNeededAndWritesNoMore) {
    n1.member(run("n1"));
    n2.member(run("n2"));
    etcd::Revision before = n1.incarnation();
    ask(n1, n1.claim(file, {"n2"}));
    EXPECT_TRUE(n1.takes_writes(file));
    Ownership::Claim seen = ask(n2, n2.claim(file, {}));
    end("n1");
    ask(n2, n2.take_over(file, seen));
    EXPECT_FALSE(n2.takes_writes(file));
    EXPECT_THAT(n2.release(file).status().message(), HasSubstr("node n1, that owned it before"));
    EXPECT_FALSE(n2.joined(file, "").ok());
    EXPECT_FALSE(n2.name_joining(file, "n2").ok());

    ask(n2, n2.name_joining(file, "n3"));
    EXPECT_EQ(record().joining, "n3");
    EXPECT_FALSE(n2.takes_writes(file));
    Ownership n3{"/c", "n3"};
    n3.member(run("n3"));
    EXPECT_THAT(n3.take_over(file, {false, record(), 9}).status().message(), HasSubstr("has no copy"));
    ask(n2, n2.joined(file, ""));
    EXPECT_EQ(record(), (OwnerRecord{"n2", n2.incarnation(), {"n3"}, {}, "", {{"n1", before}}}));
    EXPECT_TRUE(n2.takes_writes(file));
    EXPECT_TRUE(n3.take_over(file, {false, record(), 9}).ok());

    EXPECT_FALSE(n2.writes_no_more(file, {"n1", before + 1}).ok());
    ask(n2, n2.writes_no_more(file, {"n1", before}));
    EXPECT_TRUE(etcd.call(*n2.release(file), Time{})->succeeded);
}

// A chain of take-overs, one of them by the node that owned first: it knows that it writes no more itself.
TEST_F(Owners, AreAllNamedInAChainOfTakeOvers) {
    n1.member(run("n1"));
    n2.member(run("n2"));
    ask(n1, n1.claim(file, {"n2"}));
    Ownership::Claim seen = ask(n2, n2.claim(file, {}));
    end("n1");
    Ownership::Claim mine = ask(n2, n2.take_over(file, seen));
    etcd::Revision second = n2.incarnation();
    end("n2");
    n1.member(run("n1"));
    EXPECT_TRUE(ask(n1, n1.take_over(file, mine)).ours);
    EXPECT_EQ(record(), (OwnerRecord{"n1", n1.incarnation(), {}, {"n2"}, "", {{"n2", second}}}));
}

// An owner that is none any more changes nothing.
TEST_F(Owners, ChangeOnlyTheirOwn) {
    n1.member(run("n1"));
    n2.member(run("n2"));
    Ownership::Claim mine = ask(n1, n1.claim(file, {"n2"}));
    end("n1");
    ask(n2, n2.take_over(file, mine));
    Ownership::Claim after = ask(n1, n1.name_joining(file, "n3"));
    EXPECT_FALSE(after.ours);
    EXPECT_EQ(record().node, "n2");
    EXPECT_FALSE(n1.owns(file));
}

TEST_F(Owners, TakeBackWhatTheyHadBeforeTheyJoinedAnew) {
    n1.member(run("n1"));
    ask(n1, n1.claim(file, {"n2"}));
    end("n1");
    n1.member(run("n1"));
    EXPECT_FALSE(n1.owns(file));
    Ownership::Claim seen = ask(n1, n1.claim(file, {}));
    EXPECT_FALSE(seen.ours);
    EXPECT_TRUE(ask(n1, n1.take_over(file, seen)).ours);
    EXPECT_EQ(record().replicas, std::vector<std::string>{"n2"});
}

TEST_F(Owners, HaveACopy) {
    n2.member(run("n2"));
    Status status = n2.take_over(file, {false, {"n1", 3, {"n3"}}, 5}).status();
    EXPECT_THAT(status.message(), HasSubstr("/c/owners/ab: node n2 has no copy"));
}

TEST_F(Owners, ReleaseWhatIsDrainedAndNothingElse) {
    n1.member(run("n1"));
    n2.member(run("n2"));
    EXPECT_FALSE(n1.release(file).ok());
    Ownership::Claim mine = ask(n1, n1.claim(file, {"n2"}));
    auto release = n1.release(file);
    EXPECT_FALSE(n1.owns(file));
    // Taken over before the release comes: it stays the other's.
    end("n1");
    EXPECT_TRUE(ask(n2, n2.take_over(file, mine)).ours);
    EXPECT_FALSE(etcd.call(*release, Time{})->succeeded);
    EXPECT_EQ(record().node, "n2");
    ask(n2, n2.writes_no_more(file, {"n1", mine.owner.incarnation}));
    EXPECT_TRUE(etcd.call(*n2.release(file), Time{})->succeeded);
    EXPECT_EQ(etcd.created(file), 0);
}

TEST_F(Owners, DoNotTakeAnAnswerToWhoTheyAreNoMore) {
    n1.member(run("n1"));
    auto asked = n1.claim(file, {});
    auto reply = etcd.call(*asked, Time{});
    end("n1");
    n1.member(run("n1"));
    EXPECT_FALSE(n1.claimed(*asked, *reply)->ours);
    EXPECT_FALSE(n1.owns(file));
}

TEST_F(Owners, RefuseJunkByName) {
    n1.member(run("n1"));
    etcd.put(file, "junk");
    auto asked = n1.claim(file, {});
    auto claim = n1.claimed(*asked, *etcd.call(*asked, Time{}));
    EXPECT_THAT(claim.status().message(), HasSubstr("etcd key /c/owners/ab: "));
}

}  // namespace
}  // namespace fabric::pool
