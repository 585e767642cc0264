// What is asked of etcd and what it answers, as plain values: no socket, no JSON. State machines make requests and take
// replies; Client (client.h) carries them, tests and simulators answer them from a table.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/result.h"

namespace fabric::etcd {

using Revision = int64_t;
using Lease = int64_t;  // 0: none

struct KeyValue {
    std::string key;
    std::string value;
    Revision create_revision = 0;  // 0: there is no such key
    Revision mod_revision = 0;
    int64_t version = 0;
    Lease lease = 0;

    bool operator==(const KeyValue&) const = default;
};

// The end of a range that has every key beginning with `prefix`.
std::string end_of_prefix(std::string prefix);

struct Range {
    std::string key;
    std::string end;        // empty: the one key; else up to it, without it
    int64_t limit = 0;      // keys at most; 0: all
    Revision revision = 0;  // as of; 0: now
};

struct Put {
    std::string key;
    std::string value;
    Lease lease = 0;
};

struct Delete {
    std::string key;
    std::string end;  // as Range's
};

// `what` of the key `relation` the number or value. A key that is not there has 0 for every number.
struct Compare {
    enum class What { version, create_revision, mod_revision, lease, value };
    enum class Relation { equal, greater, less, not_equal };

    std::string key;
    What what = What::mod_revision;
    Relation relation = Relation::equal;
    int64_t number = 0;
    std::string value;  // for What::value

    static Compare created_at(std::string key, Revision revision) {
        return {std::move(key), What::create_revision, Relation::equal, revision, {}};
    }
    static Compare not_created_at(std::string key, Revision revision) {
        return {std::move(key), What::create_revision, Relation::not_equal, revision, {}};
    }
    static Compare absent(std::string key) { return created_at(std::move(key), 0); }
    static Compare modified_at(std::string key, Revision revision) {
        return {std::move(key), What::mod_revision, Relation::equal, revision, {}};
    }
};

using Operation = std::variant<Range, Put, Delete>;

// If all of `when` hold, `then` is done, else `otherwise`: all of it or nothing.
struct Txn {
    std::vector<Compare> when;
    std::vector<Operation> then;
    std::vector<Operation> otherwise;
};

struct Grant {
    int64_t seconds = 0;
};
struct KeepAlive {
    Lease lease = 0;
};
struct Revoke {
    Lease lease = 0;
};

using Request = std::variant<Range, Put, Delete, Txn, Grant, KeepAlive, Revoke>;

// What a Range found; `more`: the limit left some out.
struct Found {
    std::vector<KeyValue> keys;
    bool more = false;
};

struct Reply {
    Revision revision = 0;  // of the store when it answered
    bool succeeded = true;  // Txn: whether `when` held
    std::vector<Found>
        found;            // of each operation of the branch that was done, in order; empty for those that read nothing
    Lease lease = 0;      // Grant, KeepAlive
    int64_t seconds = 0;  // Grant, KeepAlive: how long the lease holds; 0: there is no such lease
};

struct Event {
    enum class Kind { put, removed };

    Kind kind = Kind::put;
    KeyValue key;  // removed: its name and mod_revision alone
};

// One message of a watch.
struct WatchReply {
    Revision revision = 0;
    bool created = false;
    bool cancelled = false;
    Revision compacted = 0;  // above 0: what was asked for is no longer there; it begins with this revision
    std::string reason;      // of the cancelling
    std::vector<Event> events;
};

// A request's first key, for messages; empty: it has none.
std::string key_of(const Request& request);
// Whether the request changes something, so that it must not be done twice.
bool changes(const Request& request);

}  // namespace fabric::etcd
