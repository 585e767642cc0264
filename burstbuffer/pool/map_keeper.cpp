#include "burstbuffer/pool/map_keeper.h"

#include <algorithm>
#include <iterator>

namespace fabric::pool {
namespace {

using namespace std::chrono_literals;

constexpr Duration retry = 1s;

const MapNode* node_of(const std::optional<MapRecord>& map, const std::string& name) {
    if (!map) return nullptr;
    auto found = std::ranges::find(map->nodes, name, &MapNode::name);
    return found == map->nodes.end() ? nullptr : &*found;
}

}  // namespace

MapRecord next_map(const View& view, const std::set<std::string>& given_up) {
    MapRecord map;
    if (view.cluster) {
        map.chunk_size = view.cluster->chunk_size;
        map.replicas = view.cluster->replicas;
    }
    // By name, since the table is.
    for (const auto& [name, node] : view.nodes) {
        if (node.record.state == NodeRecord::State::out) continue;
        MapNode entry{name, MapNode::State::up, node.record.weight, node.record.rack, {}};
        if (auto member = view.members.find(name); member != view.members.end()) {
            if (node.record.state == NodeRecord::State::draining) entry.state = MapNode::State::draining;
            entry.addresses = member->second.record.addresses;
        } else {
            const MapNode* before = node_of(view.map, name);
            if (before == nullptr || given_up.contains(name)) continue;
            entry.state = MapNode::State::down;
            entry.addresses = before->addresses;
        }
        map.nodes.push_back(std::move(entry));
    }
    map.epoch = view.map ? view.map->epoch : 0;
    if (view.map && *view.map == map) return map;
    ++map.epoch;
    return map;
}

void MapKeeper::observe(const View& view, Time now) {
    view_ = view;
    std::map<std::string, Time> missing;
    if (view_.map) {
        for (const MapNode& node : view_.map->nodes) {
            if (view_.members.contains(node.name)) continue;
            auto before = missing_.find(node.name);
            missing[node.name] = before == missing_.end() ? now : before->second;
        }
    }
    missing_ = std::move(missing);
    plan(now);
}

std::set<std::string> MapKeeper::given_up(Time now) const {
    std::set<std::string> names;
    for (const auto& [name, since] : missing_) {
        if (now >= since + options_.grace) names.insert(name);
    }
    return names;
}

void MapKeeper::plan(Time now) {
    wanted_.reset();
    due_ = never;
    auto self = view_.members.find(options_.node);
    // A map that cannot be read is not overwritten: an epoch might come twice. Who is no member writes none.
    bool unreadable = view_.map_modified != 0 && !view_.map;
    if (!view_.cluster || unreadable || self == view_.members.end()) return;
    MapRecord map = next_map(view_, given_up(now));
    if (!view_.map || map.epoch != view_.map->epoch) {
        wanted_ = std::move(map);
        auto turn = std::distance(view_.members.begin(), self);
        due_ = now + turn * Duration(options_.step);
        // Tried from the same map before: not at once again.
        if (tried_ == view_.map_modified) due_ = std::max(due_, now + retry);
        return;
    }
    // Until the first of those that are missing is given up.
    for (const auto& [name, since] : missing_) due_ = std::min(due_, since + options_.grace);
    if (due_ <= now) due_ = never;
}

std::optional<etcd::Txn> MapKeeper::next(Time now) {
    if (under_way_ || now < due_) return std::nullopt;
    if (!wanted_) plan(now);
    if (!wanted_ || now < due_) return std::nullopt;
    under_way_ = true;
    tried_ = view_.map_modified;
    return etcd::Txn{{etcd::Compare::modified_at(keys_.map(), view_.map_modified)},
                     {etcd::Put{keys_.map(), encode(*wanted_), 0}},
                     {}};
}

void MapKeeper::answered(const Result<etcd::Reply>&, Time now) {
    under_way_ = false;
    // Whatever the answer, what is at etcd comes by observe(); until then not again.
    due_ = now + retry;
}

Time MapKeeper::wake() const { return under_way_ ? never : due_; }

}  // namespace fabric::pool
