// One node's membership of the pool: its lease at etcd, its member key, and until when it may serve writes.
//
// No thread, socket or clock is in it: its host asks for the next request, carries it, and hands the answer back.
//
// The fence: etcd counts a lease from when it took the last keep-alive, which is not before we sent it. We count from
// that sending, and half the time only, so that we stop before etcd lets another node take over, even if the clocks'
// speeds differ by a factor of nearly two. Nobody but the node itself ends its lease early, and it stops serving first;
// but for a node that has the same disks (`identity`): a store has one process at a time, so the one before is dead.
#pragma once

#include <optional>
#include <string>

#include "burstbuffer/pool/etcd/message.h"
#include "burstbuffer/pool/records.h"
#include "burstbuffer/pool/time.h"

namespace fabric::pool {

class Membership {
  public:
    struct Options {
        std::string prefix;  // of the cluster's keys
        MemberRecord self;
        std::chrono::seconds lease{20};
    };

    enum class State {
        joining,
        member,
        leaving,
        left,
        refused,  // for good: another node has the name or an address, or the node is not registered; problem() says it
    };

    explicit Membership(Options options);

    // What is to be sent at `now`; nothing: not before wake(), or one is under way. Each request is answered once, by
    // answered(), even when only by an error.
    std::optional<etcd::Request> next(Time now);
    void answered(const Result<etcd::Reply>& reply, Time now);
    // When next() has something to send; `never`: when an answer came.
    Time wake() const;

    // Writes are refused from here on; then the lease is given back.
    void leave();
    // The lease is known to be gone, as when the watch saw the member key go: joins anew.
    void lost(Time now);

    State state() const { return state_; }
    // To be asked before a write is begun and again before it is acknowledged.
    bool may_serve_writes(Time now) const { return state_ == State::member && now < fenced_from(); }
    // From here on without a further answer from etcd no writes are served.
    Time fenced_from() const { return counted_from_ + counted_ / 2; }
    // The revision at which this membership's key was created: no two memberships have the same. 0: not a member.
    etcd::Revision incarnation() const { return state_ == State::member ? incarnation_ : 0; }
    etcd::Lease lease() const { return lease_; }
    // Why it is refused, or what the last try failed with.
    const Status& problem() const { return problem_; }

  private:
    enum class Step { grant, publish, revoke_old, keep_alive, revoke };

    etcd::Txn publication() const;
    void granted(const etcd::Reply& reply);
    void published(const etcd::Reply& reply, Time now);
    void kept_alive(const etcd::Reply& reply, Time now);
    void failed(const Status& status, Time now);
    void refuse(Code code, std::string message);
    void taken(const etcd::KeyValue& key, Time now);
    void begin_again(Time now);

    const Options options_;
    const Keys keys_;
    const std::string value_;  // of the member key

    State state_ = State::joining;
    Step step_ = Step::grant;
    bool under_way_ = false;
    bool lost_under_way_ = false;  // the answer under way is of a membership that is lost
    Time sent_{};
    Time due_{};  // of the next request
    unsigned failures_ = 0;
    etcd::Lease lease_ = 0;
    etcd::Lease old_lease_ = 0;  // of the process before
    etcd::Revision incarnation_ = 0;
    Time counted_from_{};
    Duration counted_{};
    Status problem_;
};

}  // namespace fabric::pool
