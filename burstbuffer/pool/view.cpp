#include "burstbuffer/pool/view.h"

#include <algorithm>

namespace fabric::pool {
namespace {

// The name behind a folder's key.
std::optional<std::string> name_below(const std::string& folder, const std::string& key) {
    if (!key.starts_with(folder)) return std::nullopt;
    return key.substr(folder.size());
}

class Builder {
  public:
    Builder(const Keys& keys, View& view) : keys_(keys), view_(view) {}

    void take(const etcd::KeyValue& key) {
        if (key.key == keys_.cluster()) {
            decoded<ClusterRecord>(key, [&](ClusterRecord record) { view_.cluster = std::move(record); });
        } else if (key.key == keys_.map()) {
            view_.map_modified = key.mod_revision;
            decoded<MapRecord>(key, [&](MapRecord record) { view_.map = std::move(record); });
        } else if (auto node = name_below(keys_.nodes(), key.key)) {
            if (!is_name(*node)) return problem(key, "its last part is no node's name");
            decoded<NodeRecord>(key, [&](NodeRecord record) {
                view_.nodes[*node] = {std::move(record), key.mod_revision};
            });
        } else if (auto member = name_below(keys_.members(), key.key)) {
            decoded<MemberRecord>(key, [&](MemberRecord record) {
                if (record.name != *member) return problem(key, "name is not that of the key");
                view_.members[*member] = {std::move(record), key.create_revision};
            });
        } else if (name_below(keys_.owners(), key.key) || name_below(keys_.drains(), key.key)) {
            decoded<OwnerRecord>(key, [&](OwnerRecord record) {
                view_.owned.push_back({key.key.substr(keys_.prefix().size() + 1), std::move(record)});
            });
        }
    }

  private:
    template <typename Record, typename Take>
    void decoded(const etcd::KeyValue& key, Take take) {
        Result<Record> record = decode<Record>(key);
        if (record.ok()) {
            take(std::move(*record));
        } else {
            view_.problems.push_back(record.status().message());
        }
    }
    void problem(const etcd::KeyValue& key, const char* what) {
        view_.problems.push_back("etcd key " + key.key + ": " + what);
    }

    const Keys& keys_;
    View& view_;
};

}  // namespace

View view_of(const Keys& keys, const std::vector<etcd::KeyValue>& all, etcd::Revision revision) {
    View view;
    view.revision = revision;
    Builder builder(keys, view);
    for (const etcd::KeyValue& key : all) builder.take(key);
    return view;
}

Verdict without(const View& view, const std::string& node) {
    Verdict verdict;
    // What cannot be read may say anything.
    for (const std::string& problem : view.problems) verdict.reasons.push_back("cannot be judged: " + problem);
    auto is_there = [&](const std::string& other) { return other != node && view.members.contains(other); };
    for (const View::Owned& one : view.owned) {
        auto member = view.members.find(one.owner.node);
        // A node that came back after its lease was gone has its bytes on its disks, but may not be the owner.
        bool owner_stays = is_there(one.owner.node) && member->second.incarnation == one.owner.incarnation;
        bool copy_stays =
            std::ranges::any_of(one.owner.replicas, is_there) || std::ranges::any_of(one.owner.keeping, is_there);
        if (!one.owner.has_copy(node)) continue;
        if (!owner_stays && !copy_stays) {
            verdict.reasons.push_back(one.what + ": no other running node has what the backing store has not");
        } else {
            verdict.notes.push_back(one.what + ": one copy fewer until it is drained");
        }
    }
    size_t left = 0;
    for (const auto& [name, other] : view.nodes) {
        if (name != node && other.record.state == NodeRecord::State::in) ++left;
    }
    if (view.cluster && left < static_cast<size_t>(view.cluster->replicas)) {
        verdict.notes.push_back(std::to_string(left) + " nodes would be left, fewer than the " +
                                std::to_string(view.cluster->replicas) + " replicas of what is written back");
    }
    verdict.safe = verdict.reasons.empty();
    return verdict;
}

}  // namespace fabric::pool
