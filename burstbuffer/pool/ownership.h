// Who has a file's undrained bytes, or drains a write-back rule: claimed, given up, taken over, at etcd.
//
// Every transaction is guarded by member keys, so that etcd decides, not what a node believes: an owner claims only
// while its member key of this incarnation is there, and is followed only when that key is gone. No thread, socket or
// clock. MODEL.md has the rules; it says what the numbers here mean.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "burstbuffer/pool/etcd/message.h"
#include "burstbuffer/pool/records.h"

namespace fabric::pool {

class Ownership {
  public:
    // What etcd said about an owner.
    struct Claim {
        bool ours = false;  // of this incarnation
        OwnerRecord owner;  // without a node: nobody's
        etcd::Revision modified = 0;
    };

    Ownership(std::string prefix, std::string node) : keys_(std::move(prefix)), node_(std::move(node)) {}

    // Of Membership; 0: not a member. With another one than before nothing is owned any more: others may have it.
    void member(etcd::Revision incarnation);

    // `key`: Keys::owner() or Keys::drain(). Code::unavailable: the node is not a member now.
    Result<etcd::Txn> claim(const std::string& key, const std::vector<std::string>& replicas) const;
    // The answer to a claim or take-over; `asked` is what it is the answer to. What is ours is owned from here on.
    // After a failed request (etcd may have done it) the same claim can be asked for again.
    Result<Claim> claimed(const etcd::Txn& asked, const etcd::Reply& reply);

    // What is owned and drained: to be forgotten here when it is sent, whatever the answer. Code::unavailable: a former
    // owner may still be writing (rule 8).
    Result<etcd::Txn> release(const std::string& key);

    // `seen`: as claimed() or a watch told it. Code::invalid: this node has no copy. etcd refuses while the owner's
    // incarnation is a member (rule 5). The owner before stays named (rule 12).
    Result<etcd::Txn> take_over(const std::string& key, const Claim& seen) const;

    // Changes of what is owned; claimed() takes their answers too. Errors: Code::invalid: it is not owned, or there is
    // no such node in the record.
    //
    // `node` is to be a replica: from the answer on it keeps what it gets, but cannot take over (rule 12).
    Result<etcd::Txn> name_joining(const std::string& key, const std::string& node) const;
    // It has everything: it is a replica, `instead_of` (empty: nobody) is none any more, and former owners need keep
    // nothing.
    Result<etcd::Txn> joined(const std::string& key, const std::string& instead_of) const;
    // The former owner writes no more: it joined anew, or was lost (rule 10). What was drained is to be drained again
    // (9).
    Result<etcd::Txn> writes_no_more(const std::string& key, const OwnerRecord::Former& former) const;

    // Rule 12: no new bytes while a former owner is all that may have the old ones.
    bool takes_writes(const std::string& key) const;
    bool owns(const std::string& key) const { return owned_.contains(key); }
    size_t owned() const { return owned_.size(); }
    etcd::Revision incarnation() const { return incarnation_; }

  private:
    Status not_a_member() const;
    Status not_owned(const std::string& key) const;
    etcd::Txn put(const std::string& key, const OwnerRecord& record) const;
    Result<etcd::Txn> changed(const std::string& key, const std::function<bool(OwnerRecord&)>& change) const;

    const Keys keys_;
    const std::string node_;
    etcd::Revision incarnation_ = 0;
    std::map<std::string, Claim> owned_;
};

}  // namespace fabric::pool
