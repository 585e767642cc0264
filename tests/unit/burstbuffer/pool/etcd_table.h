// etcd as a table: keys, revisions, leases and transactions, at times that the test says.
#pragma once

#include <map>
#include <string>

#include "burstbuffer/pool/etcd/message.h"
#include "burstbuffer/pool/time.h"

namespace fabric::pool::testing {

class EtcdTable {
  public:
    // What has run out by `now` goes, with its keys.
    void expire(Time now) {
        for (auto lease = leases_.begin(); lease != leases_.end();) {
            if (lease->second.until > now) {
                ++lease;
                continue;
            }
            drop(lease->first);
            lease = leases_.erase(lease);
        }
    }
    Result<etcd::Reply> call(const etcd::Request& request, Time now) {
        expire(now);
        etcd::Reply reply;
        Status status;
        if (const auto* txn = std::get_if<etcd::Txn>(&request)) {
            reply.succeeded = true;
            for (const etcd::Compare& one : txn->when) reply.succeeded = reply.succeeded && holds(one);
            status = run(reply.succeeded ? txn->then : txn->otherwise, reply);
        } else if (const auto* grant = std::get_if<etcd::Grant>(&request)) {
            reply.lease = ++last_lease_;
            reply.seconds = grant->seconds;
            leases_[reply.lease] = {std::chrono::seconds(grant->seconds), now + std::chrono::seconds(grant->seconds)};
        } else if (const auto* kept = std::get_if<etcd::KeepAlive>(&request)) {
            reply.lease = kept->lease;
            if (auto lease = leases_.find(kept->lease); lease != leases_.end()) {
                lease->second.until = now + lease->second.time;
                reply.seconds = std::chrono::duration_cast<std::chrono::seconds>(lease->second.time).count();
            }
        } else if (const auto* revoked = std::get_if<etcd::Revoke>(&request)) {
            if (leases_.erase(revoked->lease) == 0) return no_lease();
            drop(revoked->lease);
        } else if (const auto* put = std::get_if<etcd::Put>(&request)) {
            status = run({*put}, reply);
        } else if (const auto* range = std::get_if<etcd::Range>(&request)) {
            status = run({*range}, reply);
        } else {
            status = run({std::get<etcd::Delete>(request)}, reply);
        }
        if (!status.ok()) return status;
        reply.revision = revision_;
        return reply;
    }
    void put(const std::string& key, const std::string& value) { (void)call(etcd::Put{key, value, 0}, Time{}); }
    // 0: there is none.
    etcd::Revision created(const std::string& key) const {
        auto found = keys_.find(key);
        return found == keys_.end() ? 0 : found->second.create_revision;
    }
    const etcd::KeyValue& at(const std::string& key) const { return keys_.at(key); }
    std::vector<etcd::KeyValue> all() const {
        std::vector<etcd::KeyValue> list;
        for (const auto& [name, key] : keys_) list.push_back(key);
        return list;
    }
    etcd::Revision revision() const { return revision_; }

  private:
    struct Lease {
        Duration time{};
        Time until{};
    };
    static Status no_lease() { return {Code::unavailable, ENOENT, "etcdserver: requested lease not found"}; }

    void drop(etcd::Lease lease) {
        if (std::erase_if(keys_, [&](const auto& one) { return one.second.lease == lease; }) > 0) ++revision_;
    }
    bool holds(const etcd::Compare& compare) const {
        auto found = keys_.find(compare.key);
        etcd::KeyValue key = found == keys_.end() ? etcd::KeyValue() : found->second;
        int64_t number = compare.what == etcd::Compare::What::create_revision ? key.create_revision
                         : compare.what == etcd::Compare::What::mod_revision  ? key.mod_revision
                         : compare.what == etcd::Compare::What::lease         ? key.lease
                                                                              : key.version;
        return compare.relation == etcd::Compare::Relation::equal ? number == compare.number : number != compare.number;
    }
    Status run(const std::vector<etcd::Operation>& operations, etcd::Reply& reply) {
        bool changed = false;
        for (const etcd::Operation& one : operations) {
            const auto* put = std::get_if<etcd::Put>(&one);
            if (put != nullptr && put->lease != 0 && !leases_.contains(put->lease)) return no_lease();
        }
        for (const etcd::Operation& one : operations) {
            reply.found.emplace_back();
            if (const auto* range = std::get_if<etcd::Range>(&one)) {
                if (auto key = keys_.find(range->key); key != keys_.end())
                    reply.found.back().keys.push_back(key->second);
            } else if (const auto* put = std::get_if<etcd::Put>(&one)) {
                if (!changed) ++revision_;
                changed = true;
                etcd::KeyValue& key = keys_[put->key];
                etcd::Revision since = key.create_revision == 0 ? revision_ : key.create_revision;
                key = {put->key, put->value, since, revision_, key.version + 1, put->lease};
            } else if (keys_.erase(std::get<etcd::Delete>(one).key) > 0) {
                if (!changed) ++revision_;
                changed = true;
            }
        }
        return {};
    }

    std::map<std::string, etcd::KeyValue> keys_;
    std::map<etcd::Lease, Lease> leases_;
    etcd::Revision revision_ = 1;
    etcd::Lease last_lease_ = 100;
};

}  // namespace fabric::pool::testing
