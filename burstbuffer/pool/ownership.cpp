#include "burstbuffer/pool/ownership.h"

#include <algorithm>
#include <utility>

namespace fabric::pool {

void Ownership::member(etcd::Revision incarnation) {
    if (incarnation != incarnation_) owned_.clear();
    incarnation_ = incarnation;
}

Status Ownership::not_a_member() const {
    return {Code::unavailable, EAGAIN, "node " + node_ + " is not a member of the pool now: it can own nothing"};
}

// The record, guarded by our own member key; else what is there instead.
etcd::Txn Ownership::put(const std::string& key, const OwnerRecord& record) const {
    return {{etcd::Compare::created_at(keys_.member(node_), incarnation_)},
            {etcd::Put{key, encode(record), 0}},
            {etcd::Range{key, {}, 0, 0}}};
}

Result<etcd::Txn> Ownership::claim(const std::string& key, const std::vector<std::string>& replicas) const {
    if (incarnation_ == 0) return not_a_member();
    etcd::Txn txn = put(key, {node_, incarnation_, replicas});
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
        if (!reply.found.front().keys.empty()) {
            const etcd::KeyValue& there = reply.found.front().keys.front();
            Result<OwnerRecord> owner = decode<OwnerRecord>(there);
            if (!owner.ok()) return owner.status();
            // Ours already: the answer to an earlier try was lost.
            bool ours = owner->node == mine->node && owner->incarnation == mine->incarnation;
            claim = {ours, std::move(*owner), there.mod_revision};
        }
    }
    // An answer to who this node is no more.
    if (mine->incarnation != incarnation_) {
        claim.ours = false;
    } else if (claim.ours) {
        owned_[put->key] = claim;
    } else {
        owned_.erase(put->key);
    }
    return claim;
}

Result<etcd::Txn> Ownership::release(const std::string& key) {
    auto owned = owned_.find(key);
    if (owned == owned_.end()) return not_owned(key);
    if (const auto& former = owned->second.owner.former; !former.empty()) {
        return Status(
            Code::unavailable, EBUSY,
            "etcd key " + key + ": node " + former.front().node + ", that owned it before, may still be writing");
    }
    etcd::Txn txn{{etcd::Compare::modified_at(key, owned->second.modified)}, {etcd::Delete{key, {}}}, {}};
    owned_.erase(owned);
    return txn;
}

Result<etcd::Txn> Ownership::take_over(const std::string& key, const Claim& seen) const {
    if (incarnation_ == 0) return not_a_member();
    const OwnerRecord& before = seen.owner;
    // What this node itself had before it joined anew, it has on its disks.
    if (!before.has_copy(node_)) {
        return Status(Code::invalid, EINVAL, "etcd key " + key + ": node " + node_ + " has no copy of it");
    }
    OwnerRecord record = before;
    record.node = node_;
    record.incarnation = incarnation_;
    record.joining.clear();
    if (before.node != node_) {
        record.keeping.push_back(before.node);
        record.former.push_back({before.node, before.incarnation});
    }
    std::erase(record.replicas, node_);
    std::erase(record.keeping, node_);
    // This process joined when the calls of the ones before had returned.
    std::erase_if(record.former, [&](const OwnerRecord::Former& one) { return one.node == node_; });
    if (record.former.size() > most_former) {
        return Status(Code::unavailable, EBUSY,
                      "etcd key " + key + ": too many former owners that may still be writing");
    }
    etcd::Txn txn = put(key, record);
    txn.when.push_back(etcd::Compare::modified_at(key, seen.modified));
    txn.when.push_back(etcd::Compare::not_created_at(keys_.member(before.node), before.incarnation));
    return txn;
}

Result<etcd::Txn> Ownership::name_joining(const std::string& key, const std::string& node) const {
    return changed(key, [&](OwnerRecord& record) {
        bool named = node == node_ || std::ranges::find(record.replicas, node) != record.replicas.end();
        record.joining = node;
        return !named;
    });
}

Result<etcd::Txn> Ownership::joined(const std::string& key, const std::string& instead_of) const {
    return changed(key, [&](OwnerRecord& record) {
        if (record.joining.empty()) return false;
        if (!instead_of.empty() && std::erase(record.replicas, instead_of) == 0) return false;
        record.replicas.push_back(std::exchange(record.joining, {}));
        record.keeping.clear();
        return true;
    });
}

Result<etcd::Txn> Ownership::writes_no_more(const std::string& key, const OwnerRecord::Former& former) const {
    return changed(key, [&](OwnerRecord& record) { return std::erase(record.former, former) > 0; });
}

Result<etcd::Txn> Ownership::changed(const std::string& key, const std::function<bool(OwnerRecord&)>& change) const {
    auto owned = owned_.find(key);
    if (owned == owned_.end()) return not_owned(key);
    OwnerRecord record = owned->second.owner;
    if (!change(record))
        return Status(Code::invalid, EINVAL, "etcd key " + key + ": its record has no such node to change");
    etcd::Txn txn = put(key, record);
    txn.when.push_back(etcd::Compare::modified_at(key, owned->second.modified));
    return txn;
}

bool Ownership::takes_writes(const std::string& key) const {
    auto owned = owned_.find(key);
    return owned != owned_.end() && owned->second.owner.keeping.empty();
}

Status Ownership::not_owned(const std::string& key) const {
    return {Code::invalid, ENOENT, "etcd key " + key + ": node " + node_ + " does not own it"};
}

}  // namespace fabric::pool
