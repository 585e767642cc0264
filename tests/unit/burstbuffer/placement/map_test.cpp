#include "burstbuffer/placement/map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "burstbuffer/placement/rendezvous.h"

namespace fabric::placement {
namespace {

std::vector<Node> many(size_t count, size_t racks = 0) {
    std::vector<Node> nodes;
    for (size_t i = 0; i < count; ++i) {
        nodes.push_back({"node" + std::to_string(i), 1, racks == 0 ? "" : "rack" + std::to_string(i % racks)});
    }
    return nodes;
}

Map map_of(std::vector<Node> nodes, unsigned replicas = 1) {
    auto map = Map::make(1, 1 << 20, replicas, std::move(nodes));
    EXPECT_TRUE(map.ok()) << map.status().message();
    return *std::move(map);
}

const std::string& home(const Map& map, size_t slot) { return map.nodes()[map.homes(slot).front()].name; }

std::map<std::string, size_t> shares(const Map& map) {
    std::map<std::string, size_t> shares;
    for (size_t slot = 0; slot < Map::slots; ++slot) ++shares[home(map, slot)];
    return shares;
}

size_t differ(const Map& a, const Map& b) {
    size_t count = 0;
    for (size_t slot = 0; slot < Map::slots; ++slot) count += home(a, slot) != home(b, slot);
    return count;
}

double part(size_t slots) { return static_cast<double>(slots) / static_cast<double>(Map::slots); }

TEST(Map, SharesAreAsTheWeights) {
    auto nodes = many(12);
    for (size_t i = 0; i < nodes.size(); ++i) nodes[i].weight = static_cast<double>(i % 3 + 1);
    auto map = map_of(nodes);
    for (const auto& [name, share] : shares(map)) {
        auto node = std::ranges::find(nodes, name, &Node::name);
        double expected = node->weight / 24;
        EXPECT_NEAR(part(share), expected, expected * 0.05) << name;
    }
}

// The part of the mean that the fullest of 64 nodes has, when 100,000 chunks lie in files of so many chunks each.
double fullest(const Map& map, uint64_t length) {
    std::vector<size_t> chunks(map.nodes().size());
    uint64_t total = 100'000;
    for (uint64_t file = 0; file < total / length; ++file) {
        uint64_t hash = stable_hash("/data/shard-" + std::to_string(file));
        for (uint64_t chunk = 0; chunk < length; ++chunk) ++chunks[map.homes(Map::slot(hash, chunk)).front()];
    }
    auto nodes = static_cast<double>(chunks.size());
    return static_cast<double>(*std::ranges::max_element(chunks)) * nodes / static_cast<double>(total);
}

// Chance alone puts 1.09 times the mean on the fullest of 64 nodes when each chunk is a file of its own.
TEST(Map, ChunksLieEvenlyTheMoreSoTheLargerTheFiles) {
    auto map = map_of(many(64));
    EXPECT_LE(fullest(map, 1), 1.12);
    EXPECT_LE(fullest(map, 1000), 1.10);
    EXPECT_LE(fullest(map, 100'000), 1.05);
}

class Change : public testing::TestWithParam<size_t> {};

TEST_P(Change, AJoinMovesTheNewNodesShareAndLittleMore) {
    auto before = map_of(many(GetParam())), after = map_of(many(GetParam() + 1));
    size_t to_new = 0;
    std::string added = "node" + std::to_string(GetParam());
    for (size_t slot = 0; slot < Map::slots; ++slot) to_new += home(after, slot) == added;
    double share = 1 / static_cast<double>(GetParam() + 1);
    EXPECT_NEAR(part(to_new), share, share * 0.1 + 2.0 / Map::slots);
    EXPECT_LE(part(differ(before, after)), share + 0.02);
    RecordProperty("moved", std::to_string(part(differ(before, after))));
}

TEST_P(Change, ALossMovesTheLostNodesShareAndLittleMore) {
    auto nodes = many(GetParam());
    auto before = map_of(nodes);
    nodes.erase(nodes.begin() + 1);
    EXPECT_LE(part(differ(before, map_of(nodes))), 1 / static_cast<double>(GetParam()) + 0.02);
}

INSTANTIATE_TEST_SUITE_P(Nodes, Change, testing::Values(4, 16, 64, 256));

TEST(Map, ReplicasAreOnOtherNodesAndOtherRacks) {
    auto map = map_of(many(12, 3), 3);
    for (size_t slot = 0; slot < Map::slots; ++slot) {
        std::set<std::string> racks;
        for (uint16_t place : map.homes(slot)) racks.insert(map.nodes()[place].rack);
        ASSERT_EQ(racks.size(), 3u) << slot;
    }
    auto few_racks = map_of(many(6, 2), 3);
    for (size_t slot = 0; slot < Map::slots; ++slot) {
        auto homes = few_racks.homes(slot);
        std::set<uint16_t> nodes(homes.begin(), homes.end());
        ASSERT_EQ(nodes.size(), 3u) << slot;
        ASSERT_NE(few_racks.nodes()[homes[0]].rack, few_racks.nodes()[homes[1]].rack) << slot;
    }
    EXPECT_EQ(map_of(many(2), 3).homes(5).size(), 2u);
}

TEST(Map, TheOrderOfNodesDoesNotMatter) {
    auto nodes = many(20, 4);
    auto map = map_of(nodes, 2);
    std::ranges::shuffle(nodes, std::mt19937(3));
    auto other = map_of(nodes, 2);
    for (size_t slot = 0; slot < Map::slots; ++slot)
        ASSERT_TRUE(std::ranges::equal(map.homes(slot), other.homes(slot)));
}

TEST(Map, ANodeThatIsDownKeepsItsPlacesAndOneThatDrainsGetsNone) {
    auto nodes = many(5);
    auto before = map_of(nodes);
    nodes[2].state = Node::State::down;
    EXPECT_EQ(differ(before, map_of(nodes)), 0u);
    nodes[2].state = Node::State::draining;
    EXPECT_FALSE(shares(map_of(nodes)).contains("node2"));
    for (Node& node : nodes) node.state = Node::State::draining;
    EXPECT_TRUE(map_of(nodes).homes(0).empty());
}

TEST(Map, WhatIsFetchedIsWhatANodeGets) {
    auto before = map_of(many(8), 2), after = map_of(many(9), 2);
    size_t gets = 0;
    for (const Move& move : to_fetch(before, after, "node8")) {
        auto homes = after.homes(move.slot);
        EXPECT_TRUE(std::ranges::any_of(homes, [&](uint16_t place) { return after.nodes()[place].name == "node8"; }));
        EXPECT_EQ(move.from, home(before, move.slot));
        ++gets;
    }
    EXPECT_NEAR(part(gets), 2.0 / 9, 0.02);
    EXPECT_TRUE(to_fetch(before, before, "node3").empty());
}

TEST(Map, WhatCannotBeAMapIsRefusedByName) {
    auto refuses = [](std::vector<Node> nodes, unsigned replicas, const char* words) {
        auto map = Map::make(1, 1 << 20, replicas, std::move(nodes));
        ASSERT_FALSE(map.ok());
        EXPECT_NE(map.status().message().find(words), std::string::npos) << map.status().message();
    };
    refuses({}, 1, "no node");
    refuses({{"a"}, {"b"}, {"a"}}, 1, "two nodes of the name a");
    refuses({{"a", 0}}, 1, "node a: its weight");
    refuses({{"a", std::numeric_limits<double>::quiet_NaN()}}, 1, "node a: its weight");
    refuses({{""}}, 1, "without a name");
    refuses(many(3), 0, "0 replicas");
    refuses(many(3), 9, "9 replicas");
}

}  // namespace
}  // namespace fabric::placement
