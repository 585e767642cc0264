#include "burstbuffer/pool/ownership.h"

#include <algorithm>

namespace fabric::pool {

void Ownership::member(etcd::Revision incarnation) {
    if (incarnation != incarnation_) owned_.clear();
    incarnation_ = incarnation;
}

Status Ownership::not_a_member() const {
    return {Code::unavailable, EAGAIN, "node " + node_ + " is not a member of the pool now: it can own nothing"};
}

// The record, guarded by our own member key; else what is there instead.
etcd::Txn Ownership::put(const std::string& key, std::vector<std::string> replicas) const {
    return {{etcd::Compare::created_at(keys_.member(node_), incarnation_)},
            {etcd::Put{key, encode(OwnerRecord{node_, incarnation_, std::move(replicas)}), 0}},
            {etcd::Range{key, {}, 0, 0}}};
}

Result<etcd::Txn> Ownership::claim(const std::string& key, const std::vector<std::string>& replicas) const {
    if (incarnation_ == 0) return not_a_member();
    etcd::Txn txn = put(key, replicas);
    txn.when.push_back(etcd::Compare::absent(key));
    return txn;
}

Result<Ownership::Claim> Ownership::claimed(const etcd::Txn& asked, const etcd::Reply& reply) {
    const etcd::Put* put = asked.then.size() == 1 ? std::get_if<etcd::Put>(&asked.then.front()) : nullptr;
    if (put == nullptr) return Status::invalid("the answer is to no claim");
    Result<OwnerRecord> mine = decode<OwnerRecord>({put->key, put->value, 0, 0, 0, 0});
    if (!mine.ok()) return mine.status();
    Claim claim;
    if (reply.succeeded) {
        claim = {true, *mine, reply.revision};
    } else {
        if (reply.found.empty()) {
            return Status(Code::corrupt, EBADMSG, "etcd key " + put->key + ": a reply without what was read");
        }
        if (reply.found.front().keys.empty()) return claim;
        const etcd::KeyValue& there = reply.found.front().keys.front();
        Result<OwnerRecord> owner = decode<OwnerRecord>(there);
        if (!owner.ok()) return owner.status();
        // Ours already: the answer to an earlier try was lost.
        bool ours = owner->node == mine->node && owner->incarnation == mine->incarnation;
        claim = {ours, std::move(*owner), there.mod_revision};
    }
    // An answer to who this node is no more.
    if (mine->incarnation != incarnation_) claim.ours = false;
    if (claim.ours) owned_[put->key] = claim.modified;
    return claim;
}

Result<etcd::Txn> Ownership::release(const std::string& key) {
    auto owned = owned_.find(key);
    if (owned == owned_.end()) {
        return Status(Code::invalid, ENOENT, "etcd key " + key + ": node " + node_ + " does not own it");
    }
    etcd::Txn txn{{etcd::Compare::modified_at(key, owned->second)}, {etcd::Delete{key, {}}}, {}};
    owned_.erase(owned);
    return txn;
}

Result<etcd::Txn> Ownership::take_over(const std::string& key, const Claim& seen) const {
    if (incarnation_ == 0) return not_a_member();
    const OwnerRecord& owner = seen.owner;
    // What this node itself had before it joined anew, it has on its disks.
    if (owner.node != node_ && std::ranges::find(owner.replicas, node_) == owner.replicas.end()) {
        return Status(Code::invalid, EINVAL, "etcd key " + key + ": node " + node_ + " has no copy of it");
    }
    std::vector<std::string> replicas;
    for (const std::string& replica : owner.replicas) {
        if (replica != node_) replicas.push_back(replica);
    }
    etcd::Txn txn = put(key, std::move(replicas));
    txn.when.push_back(etcd::Compare::modified_at(key, seen.modified));
    txn.when.push_back(etcd::Compare::not_created_at(keys_.member(owner.node), owner.incarnation));
    return txn;
}

}  // namespace fabric::pool
