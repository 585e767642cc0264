// Which nodes are to have a chunk, by the pool's map of one epoch.
//
// Chunks go to slots, slots to nodes. A file begins at a slot that follows from its name and goes on slot by slot, so a
// large file lies on all nodes alike; a file of one chunk is in one place as a whole. Slots go to nodes by rendezvous
// hashing with bounded load: each node takes the slots that it scores highest for, up to its share and little more. So
// a request costs one look into a table, whatever the number of nodes, and a change of members moves what it must and
// little more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace fabric::placement {

struct Node {
    enum class State : uint8_t {
        up,
        draining,  // gets nothing new
        down,      // keeps its places: it is expected back
    };
    std::string name;
    double weight = 1;
    std::string rack{};  // empty: not known, so a rack of its own
    State state = State::up;
};

class Map {
  public:
    static constexpr size_t slots = 1 << 16;
    // A node has at most this much more than its share of the slots, and one.
    static constexpr double slack = 1.0 / 64;
    static constexpr size_t most_nodes = 1 << 15;
    static constexpr unsigned most_replicas = 8;

    // The same nodes in any order give the same places. EINVAL, by name: no node, a name twice, a weight that is no
    // number above 0, too many nodes or replicas. `epoch` and `chunk_size` are carried along.
    static Result<Map> make(uint64_t epoch, uint64_t chunk_size, unsigned replicas, std::vector<Node> nodes);

    // Of chunk number `chunk` of a file; `file` is stable_hash of its lasting name.
    static size_t slot(uint64_t file, uint64_t chunk) { return (file + chunk) % slots; }

    // Places in nodes(), the home first, then who has the replicas: different nodes, of different racks as long as
    // there are such. Fewer than `replicas` where there are fewer nodes that take anything; empty when none does.
    std::span<const uint16_t> homes(size_t slot) const;

    // In the order of names.
    const std::vector<Node>& nodes() const { return nodes_; }
    uint64_t epoch() const { return epoch_; }
    uint64_t chunk_size() const { return chunk_size_; }

  private:
    Map(uint64_t epoch, uint64_t chunk_size, std::vector<Node> nodes)
        : epoch_(epoch), chunk_size_(chunk_size), nodes_(std::move(nodes)) {}

    uint64_t epoch_;
    uint64_t chunk_size_;
    std::vector<Node> nodes_;
    size_t width_ = 0;             // homes of each slot
    std::vector<uint16_t> homes_;  // width_ for each slot
};

// What a change of the map moves: slots that `name` is to have by `after` and had not by `before`, with the node that
// has them (its name; empty: none has, the backing store is read).
struct Move {
    size_t slot = 0;
    std::string_view from;  // of `before`
};
std::vector<Move> to_fetch(const Map& before, const Map& after, std::string_view name);

}  // namespace fabric::placement
