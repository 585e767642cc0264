// A node's membership: joining, the fence at half the lease, who is refused, and that no write is served by who etcd no
// longer has as a member, whatever is delayed or lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "burstbuffer/pool/membership.h"
#include "tests/unit/burstbuffer/pool/etcd_table.h"

namespace fabric::pool {
namespace {

using namespace std::chrono_literals;
using testing::EtcdTable;
using ::testing::HasSubstr;
using State = Membership::State;

const Keys keys("/c");

class Memberships : public ::testing::Test {
  protected:
    Memberships() {
        for (const char* name : {"n1", "n2"}) etcd.put(keys.node(name), encode(NodeRecord{}));
    }
    static Membership::Options options(const std::string& name, const std::string& identity,
                                       const std::string& process = "p1", const std::string& address = "h:1") {
        return {"/c", {name, identity, process, {address}, {}, "0.1.0"}, 20s};
    }
    // Requests and answers without delay, until there is nothing to do.
    void settle(Membership& member) {
        while (auto request = member.next(now)) member.answered(etcd.call(*request, now), now);
    }

    EtcdTable etcd;
    Time now = 1000s;
};

TEST_F(Memberships, JoinWithKeyAndAddressesAtOnce) {
    Membership member(options("n1", "a"));
    EXPECT_FALSE(member.may_serve_writes(now));
    settle(member);
    ASSERT_EQ(member.state(), State::member) << member.problem().message();
    EXPECT_TRUE(member.may_serve_writes(now));
    EXPECT_EQ(member.incarnation(), etcd.created(keys.member("n1")));
    EXPECT_EQ(etcd.at(keys.address("h:1")).value, "n1");
    EXPECT_EQ(etcd.at(keys.address("h:1")).lease, member.lease());
    EXPECT_EQ(etcd.created(keys.address("h:1")), member.incarnation());
}

TEST_F(Memberships, AreFencedAtHalfTheLease) {
    Membership member(options("n1", "a"));
    settle(member);
    EXPECT_TRUE(member.may_serve_writes(now + 10s - 1ns));
    EXPECT_FALSE(member.may_serve_writes(now + 10s));
    // Three tries before.
    EXPECT_LE(member.wake(), now + 10'000ms / 3 + 1ms);
    for (int round = 0; round < 100; ++round) {
        now = member.wake();
        settle(member);
        ASSERT_TRUE(member.may_serve_writes(now));
    }
    EXPECT_EQ(member.incarnation(), etcd.created(keys.member("n1")));
}

TEST_F(Memberships, CountFromBeforeTheKeepAliveWasSent) {
    Membership member(options("n1", "a"));
    settle(member);
    Time sent = now = member.wake();
    auto request = member.next(now);
    ASSERT_TRUE(request);
    auto reply = etcd.call(*request, now);
    now += 6s;
    member.answered(reply, now);
    EXPECT_EQ(member.fenced_from(), sent + 10s);
}

TEST_F(Memberships, AreMembersAgainWhenTheLeaseHeld) {
    Membership member(options("n1", "a"));
    settle(member);
    etcd::Revision before = member.incarnation();
    now += 15s;
    EXPECT_FALSE(member.may_serve_writes(now));
    settle(member);
    EXPECT_TRUE(member.may_serve_writes(now));
    EXPECT_EQ(member.incarnation(), before);
}

TEST_F(Memberships, JoinAnewAsAnotherIncarnationWhenTheLeaseIsGone) {
    Membership member(options("n1", "a"));
    settle(member);
    etcd::Revision before = member.incarnation();
    now += 25s;
    settle(member);
    ASSERT_EQ(member.state(), State::member);
    EXPECT_GT(member.incarnation(), before);
    EXPECT_TRUE(member.may_serve_writes(now));
}

TEST_F(Memberships, KnowTheirOwnKeyWhenItsAnswerWasLost) {
    Membership member(options("n1", "a"));
    for (int requests = 0; requests < 2; ++requests) {
        auto request = member.next(now);
        ASSERT_TRUE(request);
        auto reply = etcd.call(*request, now);
        if (requests == 1) reply = Status(Code::timeout, ETIMEDOUT, "lost");
        member.answered(reply, now);
    }
    EXPECT_EQ(member.state(), State::joining);
    now = member.wake();
    settle(member);
    ASSERT_EQ(member.state(), State::member);
    EXPECT_EQ(member.incarnation(), etcd.created(keys.member("n1")));
}

TEST_F(Memberships, OfOneNameAreRefusedByName) {
    Membership first(options("n1", "a", "p1", "first:1")), second(options("n1", "b", "p2", "second:1"));
    settle(first);
    settle(second);
    EXPECT_EQ(second.state(), State::refused);
    EXPECT_THAT(second.problem().message(), HasSubstr("node name n1 is taken by another node, at first:1"));
    EXPECT_FALSE(second.may_serve_writes(now));
    EXPECT_EQ(etcd.created(keys.address("second:1")), 0);
    EXPECT_EQ(second.wake(), never);
}

TEST_F(Memberships, OfOneAddressAreRefusedByName) {
    Membership first(options("n1", "a")), second(options("n2", "b"));
    settle(first);
    settle(second);
    EXPECT_EQ(second.state(), State::refused);
    EXPECT_THAT(second.problem().message(), HasSubstr("address h:1 of node n2 is node n1's"));
    EXPECT_EQ(etcd.created(keys.member("n2")), 0);
}

TEST_F(Memberships, OfWhoIsNotRegisteredAreRefused) {
    Membership member(options("n3", "a"));
    settle(member);
    EXPECT_EQ(member.state(), State::refused);
    EXPECT_THAT(member.problem().message(), HasSubstr("node n3 is not registered"));
}

TEST_F(Memberships, TakeThePlaceOfTheirOwnProcessBefore) {
    Membership before(options("n1", "a", "p1")), after(options("n1", "a", "p2"));
    settle(before);
    etcd::Revision old = before.incarnation();
    settle(after);
    ASSERT_EQ(after.state(), State::member) << after.problem().message();
    EXPECT_GT(after.incarnation(), old);
}

TEST_F(Memberships, WithoutALeaseAreNoNodes) {
    etcd.put(keys.member("n1"), encode(MemberRecord{"n1", "a", "p", {"x:1"}, {}, ""}));
    Membership member(options("n1", "a"));
    settle(member);
    EXPECT_EQ(member.state(), State::refused);
    EXPECT_THAT(member.problem().message(), HasSubstr("/c/members/n1 has no lease"));
}

TEST_F(Memberships, LeaveAtOnceAndGiveTheLeaseBack) {
    Membership member(options("n1", "a"));
    settle(member);
    member.leave();
    EXPECT_FALSE(member.may_serve_writes(now));
    EXPECT_NE(etcd.created(keys.member("n1")), 0);
    settle(member);
    EXPECT_EQ(member.state(), State::left);
    EXPECT_EQ(etcd.created(keys.member("n1")), 0);
}

TEST_F(Memberships, LeaveWithoutEtcdToo) {
    Membership member(options("n1", "a"));
    settle(member);
    member.leave();
    for (int tries = 0; tries < 10 && member.state() != State::left; ++tries) {
        if (auto request = member.next(now)) member.answered(Status(Code::unavailable, EAGAIN, "no etcd"), now);
        if (member.wake() != never) now = member.wake();
    }
    EXPECT_EQ(member.state(), State::left);
}

TEST_F(Memberships, JoinAnewWhenTheirKeyIsSeenToGo) {
    Membership member(options("n1", "a"));
    settle(member);
    now = member.wake();
    auto request = member.next(now);
    member.lost(now);
    EXPECT_FALSE(member.may_serve_writes(now));
    // The answer that is under way is of the old membership.
    member.answered(etcd.call(*request, now), now);
    EXPECT_FALSE(member.may_serve_writes(now));
    settle(member);
    EXPECT_TRUE(member.may_serve_writes(now));
}

// Requests reach etcd late, or never; answers come late, or never; etcd's clock runs faster or slower. Never may a node
// serve writes whose member key of that incarnation is gone.
TEST_F(Memberships, NeverServeWritesWithoutTheirKey) {
    uint64_t served = 0, rejoined = 0;
    for (unsigned seed = 0; seed < 200; ++seed) {
        std::mt19937 random(seed);
        EtcdTable table;
        table.put(keys.node("n1"), encode(NodeRecord{}));
        Membership member(options("n1", "a"));
        double speed = 0.6 + 0.05 * static_cast<double>(random() % 28);  // of etcd's clock, up to 1.95
        auto etcd_time = [&](Time time) { return std::chrono::duration_cast<Time>(time * speed); };
        std::optional<etcd::Request> request;
        std::optional<Result<etcd::Reply>> reply;
        Time arrives = never, answers = never;
        etcd::Revision incarnation = 0;
        for (Time time = 1s; time < 400s; time += 100ms) {
            if (time >= arrives) {
                reply = table.call(*request, etcd_time(time));
                if (random() % 8 == 0) reply = Status(Code::timeout, ETIMEDOUT, "lost on the way back");
                arrives = never;
            }
            if (time >= answers) {
                if (!reply) reply = Status(Code::timeout, ETIMEDOUT, "lost on the way");
                member.answered(*reply, time);
                answers = never;
            }
            if (auto next = member.next(time)) {
                request = std::move(next);
                reply.reset();
                // Mostly fast, at times as slow as a lease; an answer may be given up before the request arrives.
                auto delay = [&] { return random() % 6 == 0 ? random() % 20'000 : random() % 500; };
                arrives = random() % 6 == 0 ? never : time + std::chrono::milliseconds(delay());
                answers = time + std::chrono::milliseconds(delay());
            }
            table.expire(etcd_time(time));
            if (!member.may_serve_writes(time)) continue;
            ++served;
            ASSERT_EQ(table.created(keys.member("n1")), member.incarnation()) << "seed " << seed;
            if (incarnation != member.incarnation()) ++rejoined;
            incarnation = member.incarnation();
        }
    }
    EXPECT_GT(served, 100'000U);
    EXPECT_GT(rejoined, 400U);
}

}  // namespace
}  // namespace fabric::pool
