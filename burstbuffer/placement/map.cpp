#include "burstbuffer/placement/map.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "burstbuffer/placement/rendezvous.h"

namespace fabric::placement {
namespace {

Status refused(std::string message) { return {Code::invalid, EINVAL, "map: " + std::move(message)}; }

Status check(unsigned replicas, const std::vector<Node>& nodes) {
    if (nodes.empty()) return refused("no node");
    if (nodes.size() > Map::most_nodes) return refused("more than " + std::to_string(Map::most_nodes) + " nodes");
    if (replicas < 1 || replicas > Map::most_replicas) return refused(std::to_string(replicas) + " replicas");
    for (size_t i = 0; i < nodes.size(); ++i) {
        if (nodes[i].name.empty()) return refused("a node without a name");
        if (i > 0 && nodes[i].name == nodes[i - 1].name) return refused("two nodes of the name " + nodes[i].name);
        if (!std::isfinite(nodes[i].weight) || nodes[i].weight <= 0) {
            return refused("node " + nodes[i].name + ": its weight is no number above 0");
        }
    }
    return {};
}

// Who takes slots, the best first. Within one weight the order is that of the hashes alone, so a slot costs a logarithm
// for each weight, not for each node.
class Takers {
  public:
    explicit Takers(const std::vector<Node>& nodes) : room_(nodes.size()) {
        double sum = 0;
        for (const Node& node : nodes) sum += takes(node) ? node.weight : 0;
        for (size_t i = 0; i < nodes.size(); ++i) {
            if (!takes(nodes[i])) continue;
            double share = static_cast<double>(Map::slots) * nodes[i].weight / sum;
            room_[i] = static_cast<size_t>(std::ceil(share * (1 + Map::slack))) + 1;
            classes_[nodes[i].weight].push_back({i, stable_hash(nodes[i].name)});
            ++count_;
        }
    }

    size_t count() const { return count_; }

    // The best that `fits` says yes to; SIZE_MAX: none.
    template <typename Fits>
    size_t best(uint64_t item, Fits fits) const {
        size_t best = SIZE_MAX;
        double best_score = -1;
        for (const auto& [weight, members] : classes_) {
            const Candidate* winner = nullptr;
            uint64_t highest = 0;
            for (const Candidate& one : members) {
                uint64_t hash = spread(item, one.id);
                if ((winner != nullptr && hash <= highest) || !fits(one.place)) continue;
                winner = &one;
                highest = hash;
            }
            if (winner == nullptr) continue;
            double wins = score(item, {winner->id, weight});
            if (wins <= best_score) continue;
            best_score = wins;
            best = winner->place;
        }
        return best;
    }

    size_t take(uint64_t item) {
        size_t place = best(item, [&](size_t one) { return room_[one] > 0; });
        if (place != SIZE_MAX) --room_[place];
        return place;
    }

  private:
    struct Candidate {
        size_t place;
        uint64_t id;
    };
    static bool takes(const Node& node) { return node.state != Node::State::draining; }

    size_t count_ = 0;
    std::vector<size_t> room_;  // slots that a node may still take, by its place
    std::map<double, std::vector<Candidate>> classes_;
};

}  // namespace

Result<Map> Map::make(uint64_t epoch, uint64_t chunk_size, unsigned replicas, std::vector<Node> nodes) {
    std::ranges::sort(nodes, {}, &Node::name);
    FABRIC_RETURN_IF_ERROR(check(replicas, nodes));
    Map map(epoch, chunk_size, std::move(nodes));
    Takers takers(map.nodes_);
    map.width_ = std::min<size_t>(replicas, takers.count());
    map.homes_.reserve(slots * map.width_);
    for (size_t slot = 0; map.width_ > 0 && slot < slots; ++slot) {
        uint64_t item = stable_hash({reinterpret_cast<const char*>(&slot), sizeof slot});
        std::vector<size_t> chosen{takers.take(item)};
        auto is_other = [&](size_t place) { return std::ranges::find(chosen, place) == chosen.end(); };
        auto is_elsewhere = [&](size_t place) {
            const std::string& rack = map.nodes_[place].rack;
            return is_other(place) && (rack.empty() || std::ranges::none_of(chosen, [&](size_t one) {
                                           return map.nodes_[one].rack == rack;
                                       }));
        };
        while (chosen.size() < map.width_) {
            size_t next = takers.best(item, is_elsewhere);
            if (next == SIZE_MAX) next = takers.best(item, is_other);
            chosen.push_back(next);
        }
        for (size_t place : chosen) map.homes_.push_back(static_cast<uint16_t>(place));
    }
    return map;
}

std::span<const uint16_t> Map::homes(size_t slot) const { return std::span(homes_).subspan(slot * width_, width_); }

std::vector<Move> to_fetch(const Map& before, const Map& after, std::string_view name) {
    auto has = [&](const Map& map, size_t slot) {
        return std::ranges::any_of(map.homes(slot), [&](uint16_t place) { return map.nodes()[place].name == name; });
    };
    std::vector<Move> moves;
    for (size_t slot = 0; slot < Map::slots; ++slot) {
        if (!has(after, slot) || has(before, slot)) continue;
        auto had = before.homes(slot);
        moves.push_back({slot, had.empty() ? std::string_view() : std::string_view(before.nodes()[had.front()].name)});
    }
    return moves;
}

}  // namespace fabric::placement
