// What is at etcd of a cluster at one moment, decoded, and what follows from it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "burstbuffer/pool/etcd/message.h"
#include "burstbuffer/pool/records.h"

namespace fabric::pool {

struct View {
    struct Node {
        NodeRecord record;
        etcd::Revision modified = 0;
    };
    struct Member {
        MemberRecord record;
        etcd::Revision incarnation = 0;
    };
    struct Owned {
        std::string what;  // the key below the cluster's prefix: "owners/FILE", "drains/RULE"
        OwnerRecord owner;
    };

    etcd::Revision revision = 0;
    std::optional<ClusterRecord> cluster;
    std::optional<MapRecord> map;
    etcd::Revision map_modified = 0;  // 0: there is no such key; above 0 without a map: it cannot be read
    std::map<std::string, Node> nodes;
    std::map<std::string, Member> members;
    std::vector<Owned> owned;
    std::vector<std::string> problems;  // records that are wrong, by key and field; they are left out above
};

// `keys`: all that are below the prefix.
View view_of(const Keys& keys, const std::vector<etcd::KeyValue>& all, etcd::Revision revision);

struct Verdict {
    bool safe = true;
    std::vector<std::string> reasons;  // what would be lost
    std::vector<std::string> notes;    // what would be worse, but not lost
};

// Whether the node can be taken away now, for ever, without a loss of acknowledged bytes.
Verdict without(const View& view, const std::string& node);

}  // namespace fabric::pool
