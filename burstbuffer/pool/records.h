// What the pool keeps at etcd, and under which keys: ETCD.md shows all of it with examples.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "burstbuffer/pool/etcd/message.h"
#include "common/result.h"

namespace fabric::pool {

constexpr int64_t format = 1;                 // of everything here; a cluster of another one is refused
constexpr size_t longest_record = 1 << 20;    // bytes; etcd's own limit is 1.5 MiB a request
constexpr size_t longest_name = 64;           // of a node
constexpr int64_t most_members = 4096;        // nodes of one cluster
constexpr int64_t largest_chunk = 1 << 30;    // bytes
constexpr int64_t smallest_chunk = 64 << 10;  // bytes
constexpr int64_t most_replicas = 8;
constexpr size_t most_former = 16;  // owners of before that one record names

// Letters, digits, '.', '_' and '-', not beginning with '.', at most longest_name: what is a part of a key.
bool is_name(std::string_view name);
// "host:port", "[v6]:port".
bool is_address(std::string_view address);

// Keys under one prefix per cluster.
class Keys {
  public:
    // `prefix` begins with '/' and has no '/' at its end.
    explicit Keys(std::string prefix) : prefix_(std::move(prefix)) {}

    const std::string& prefix() const { return prefix_; }
    std::string cluster() const { return prefix_ + "/cluster"; }
    std::string map() const { return prefix_ + "/map"; }
    std::string nodes() const { return prefix_ + "/nodes/"; }
    std::string node(std::string_view name) const { return nodes().append(name); }
    std::string members() const { return prefix_ + "/members/"; }
    std::string member(std::string_view name) const { return members().append(name); }
    std::string addresses() const { return prefix_ + "/addresses/"; }
    std::string address(std::string_view address) const { return addresses().append(address); }
    std::string owners() const { return prefix_ + "/owners/"; }
    std::string owner(std::string_view file) const { return owners().append(file); }
    std::string drains() const { return prefix_ + "/drains/"; }
    std::string drain(std::string_view rule) const { return drains().append(rule); }
    std::string jobs() const { return prefix_ + "/jobs/"; }
    std::string job(std::string_view id) const { return jobs().append(id); }
    std::string key_epoch() const { return prefix_ + "/key-epoch"; }

  private:
    std::string prefix_;
};

struct ClusterRecord {
    std::string uuid;
    int64_t chunk_size = 1 << 20;  // bytes, a power of two
    int64_t replicas = 1;          // of what is written back

    bool operator==(const ClusterRecord&) const = default;
};

// Of a node, until an administrator changes it: it outlives the node's process and its lease.
struct NodeRecord {
    enum class State { in, draining, out };

    State state = State::in;
    double weight = 1;
    std::string rack;  // empty: not known

    bool operator==(const NodeRecord&) const = default;
};

struct DiskRecord {
    std::string folder;
    int64_t capacity = 0;  // bytes

    bool operator==(const DiskRecord&) const = default;
};

// Of a running node; etcd removes it with its lease.
struct MemberRecord {
    std::string name;
    std::string identity;  // of the node's disks: stays when its process starts again, and no other node has it
    std::string process;   // another one at each start
    std::vector<std::string> addresses;
    std::vector<DiskRecord> disks;
    std::string version;

    bool operator==(const MemberRecord&) const = default;
};

struct MapNode {
    enum class State { up, draining, down };

    std::string name;
    State state = State::up;
    double weight = 1;
    std::string rack;
    std::vector<std::string> addresses;

    bool operator==(const MapNode&) const = default;
};

struct MapRecord {
    int64_t epoch = 0;  // 0: there is no map yet
    int64_t chunk_size = 1 << 20;
    int64_t replicas = 1;
    std::vector<MapNode> nodes;  // by name

    bool operator==(const MapRecord&) const = default;
};

// Who has bytes of a file, or of a write-back rule's drain, that the backing store has not. A node's `incarnation` is
// the revision at which its member key was created: what owns with it, owns no more when that key is gone.
// The numbers of rules are MODEL.md's.
struct OwnerRecord {
    struct Former {
        std::string node;
        etcd::Revision incarnation = 0;

        bool operator==(const Former&) const = default;
    };

    std::string node;
    etcd::Revision incarnation = 0;
    std::vector<std::string> replicas;   // the other nodes that have the same bytes, the first to take over first
    std::vector<std::string> keeping{};  // former owners, that have a copy until there are replicas (rule 12)
    std::string joining{};               // is to be a replica, and may not have everything yet; empty: none
    std::vector<Former> former{};        // owners before that may still be writing to the backing store (rules 8, 14)

    bool operator==(const OwnerRecord&) const = default;
    // Who may take over.
    bool has_copy(std::string_view other) const;
};

struct JobRecord {
    enum class State { running, cancelled, done };

    std::vector<std::string> paths;
    std::string node;  // that began it
    State state = State::running;
    int64_t files = 0;
    int64_t done_files = 0;
    int64_t bytes = 0;
    int64_t done_bytes = 0;
    int64_t failed_files = 0;

    bool operator==(const JobRecord&) const = default;
};

// Which epoch of the cluster key is signed with; older ones down to `oldest` are still believed. No secret is in it.
struct KeyEpochRecord {
    int64_t current = 1;
    int64_t oldest = 1;

    bool operator==(const KeyEpochRecord&) const = default;
};

std::string encode(const ClusterRecord& record);
std::string encode(const NodeRecord& record);
std::string encode(const MemberRecord& record);
std::string encode(const MapRecord& record);
std::string encode(const OwnerRecord& record);
std::string encode(const JobRecord& record);
std::string encode(const KeyEpochRecord& record);

// Fields that are not known are skipped. Code::corrupt: the message names key and field, and what is wrong with it.
template <typename Record>
Result<Record> decode(const etcd::KeyValue& key);

}  // namespace fabric::pool
