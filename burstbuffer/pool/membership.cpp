#include "burstbuffer/pool/membership.h"

#include <algorithm>

namespace fabric::pool {
namespace {

using namespace std::chrono_literals;

// Three tries before the fence: at a sixth, two sixths and three sixths of the lease.
constexpr int keep_alives_in_a_lease = 6;
constexpr Duration first_pause = 100ms;
constexpr Duration longest_pause = 2s;

}  // namespace

Membership::Membership(Options options)
    : options_(std::move(options)), keys_(options_.prefix), value_(encode(options_.self)) {}

std::optional<etcd::Request> Membership::next(Time now) {
    if (under_way_ || now < wake()) return std::nullopt;
    under_way_ = true;
    sent_ = now;
    switch (step_) {
        case Step::grant:
            return etcd::Grant{options_.lease.count()};
        case Step::publish:
            return publication();
        case Step::revoke_old:
            return etcd::Revoke{old_lease_};
        case Step::keep_alive:
            return etcd::KeepAlive{lease_};
        case Step::revoke:
            return etcd::Revoke{lease_};
    }
    return std::nullopt;
}

Time Membership::wake() const {
    if (under_way_ || state_ == State::left || state_ == State::refused) return never;
    return due_;
}

// The member key and a key for each address appear together, with the lease, and only where none of them is.
etcd::Txn Membership::publication() const {
    etcd::Txn txn;
    std::string member = keys_.member(options_.self.name), node = keys_.node(options_.self.name);
    txn.when.push_back(etcd::Compare::absent(member));
    txn.when.push_back(etcd::Compare::not_created_at(node, 0));
    txn.then.push_back(etcd::Put{member, value_, lease_});
    txn.otherwise.push_back(etcd::Range{member, {}, 0, 0});
    txn.otherwise.push_back(etcd::Range{node, {}, 0, 0});
    for (const std::string& address : options_.self.addresses) {
        txn.when.push_back(etcd::Compare::absent(keys_.address(address)));
        txn.then.push_back(etcd::Put{keys_.address(address), options_.self.name, lease_});
        txn.otherwise.push_back(etcd::Range{keys_.address(address), {}, 0, 0});
    }
    return txn;
}

void Membership::answered(const Result<etcd::Reply>& reply, Time now) {
    under_way_ = false;
    if (lost_under_way_) {
        // A lease that was granted meanwhile runs out by itself.
        lost_under_way_ = false;
        return;
    }
    if (!reply.ok()) return failed(reply.status(), now);
    failures_ = 0;
    due_ = now;
    switch (step_) {
        case Step::grant:
            granted(reply.value());
            break;
        case Step::publish:
            published(reply.value(), now);
            break;
        case Step::revoke_old:
            step_ = Step::publish;
            break;
        case Step::keep_alive:
            kept_alive(reply.value(), now);
            break;
        case Step::revoke:
            state_ = State::left;
            break;
    }
    if (state_ == State::leaving) step_ = Step::revoke;
}

void Membership::granted(const etcd::Reply& reply) {
    lease_ = reply.lease;
    counted_from_ = sent_;
    // etcd may grant more than was asked for; never count on it.
    counted_ = std::chrono::seconds(std::min<int64_t>(reply.seconds, options_.lease.count()));
    step_ = Step::publish;
}

void Membership::published(const etcd::Reply& reply, Time now) {
    if (reply.succeeded) {
        if (state_ == State::joining) state_ = State::member;
        incarnation_ = reply.revision;
        problem_ = Status();
        step_ = Step::keep_alive;
        due_ = counted_from_ + counted_ / keep_alives_in_a_lease;
        return;
    }
    if (reply.found.size() != options_.self.addresses.size() + 2) {
        return failed({Code::corrupt, EBADMSG,
                       "etcd key " + keys_.member(options_.self.name) + ": a reply without what was read"},
                      now);
    }
    const std::vector<etcd::KeyValue>& member = reply.found[0].keys;
    if (!member.empty()) return taken(member.front(), now);
    if (reply.found[1].keys.empty()) {
        return refuse(Code::config, "node " + options_.self.name + " is not registered in the cluster at " +
                                        options_.prefix + ": 'fabricctl cluster join' does it");
    }
    for (size_t at = 0; at < options_.self.addresses.size(); ++at) {
        const std::vector<etcd::KeyValue>& address = reply.found[at + 2].keys;
        if (address.empty()) continue;
        return refuse(Code::config, "address " + options_.self.addresses[at] + " of node " + options_.self.name +
                                        " is node " + address.front().value + "'s: two nodes cannot have the same one");
    }
    // What was in the way is gone: once more.
}

// There is a member of our name: ourselves (the answer to an earlier try was lost), the process before, or another
// node.
void Membership::taken(const etcd::KeyValue& key, Time now) {
    Result<MemberRecord> there = decode<MemberRecord>(key);
    if (!there.ok()) return failed(there.status(), now);
    if (key.lease == lease_ && there->process == options_.self.process) {
        if (state_ == State::joining) state_ = State::member;
        incarnation_ = key.create_revision;
        problem_ = Status();
        step_ = Step::keep_alive;
        due_ = counted_from_ + counted_ / keep_alives_in_a_lease;
        return;
    }
    if (there->identity != options_.self.identity) {
        std::string at = there->addresses.empty() ? "?" : there->addresses.front();
        return refuse(Code::config, "node name " + options_.self.name + " is taken by another node, at " + at +
                                        ": two nodes cannot have the same one");
    }
    if (key.lease == 0) {
        return refuse(Code::config, "etcd key " + key.key + " has no lease, so no node wrote it: remove it by hand");
    }
    old_lease_ = key.lease;
    step_ = Step::revoke_old;
}

void Membership::kept_alive(const etcd::Reply& reply, Time now) {
    if (reply.seconds == 0) {
        problem_ = {Code::unavailable, EAGAIN, "node " + options_.self.name + ": its lease ran out; it joins anew"};
        return begin_again(now);
    }
    counted_from_ = sent_;
    counted_ = std::chrono::seconds(std::min<int64_t>(reply.seconds, options_.lease.count()));
    due_ = counted_from_ + counted_ / keep_alives_in_a_lease;
}

void Membership::failed(const Status& status, Time now) {
    problem_ = status;
    Duration pause = std::min<Duration>(first_pause * (1U << std::min(failures_, 10U)), longest_pause);
    ++failures_;
    due_ = now + pause;
    // A lease that there is no more: etcd said so to what needed it.
    bool gone = status.errno_value() == ENOENT;
    if (step_ == Step::revoke_old && gone) {
        step_ = Step::publish;
    } else if (step_ == Step::revoke) {
        // The lease runs out by itself; who leaves does not wait for an etcd that is not there.
        if (gone || failures_ >= 3) state_ = State::left;
    } else if (state_ == State::leaving) {
        if (lease_ == 0) state_ = State::left;
        step_ = Step::revoke;
    } else if (gone && (step_ == Step::publish || step_ == Step::keep_alive)) {
        begin_again(now);
        due_ = now + pause;
    }
}

void Membership::refuse(Code code, std::string message) {
    state_ = State::refused;
    problem_ = {code, EEXIST, std::move(message)};
}

void Membership::leave() {
    if (state_ == State::left || state_ == State::refused) {
        state_ = State::left;
        return;
    }
    state_ = State::leaving;
    due_ = Time{};
    failures_ = 0;
    if (under_way_) return;
    if (lease_ == 0) {
        state_ = State::left;
    } else {
        step_ = Step::revoke;
    }
}

void Membership::lost(Time now) {
    if (state_ != State::member) return;
    lost_under_way_ = under_way_;
    begin_again(now);
}

void Membership::begin_again(Time now) {
    if (state_ == State::leaving) {
        state_ = State::left;
        return;
    }
    state_ = State::joining;
    step_ = Step::grant;
    lease_ = 0;
    incarnation_ = 0;
    counted_ = Duration{};
    due_ = now;
}

}  // namespace fabric::pool
