#include "common/io/topology.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace fabric::io {
namespace {

// A folder as /sys/devices/system/node is.
class Topology : public testing::Test {
  protected:
    void SetUp() override { folder_ = mkdtemp(pattern_.data()); }
    void TearDown() override { std::filesystem::remove_all(folder_); }
    void node(const std::string& name, const std::string& processors) const {
        std::filesystem::create_directory(folder_ + "/" + name);
        std::ofstream(folder_ + "/" + name + "/cpulist") << processors << "\n";
    }
    static cpu_set_t set(const std::vector<int>& processors) {
        cpu_set_t result;
        CPU_ZERO(&result);
        for (int processor : processors) CPU_SET(processor, &result);
        return result;
    }

    std::string pattern_ = testing::TempDir() + "topology.XXXXXX", folder_;
};

TEST_F(Topology, ListsOfProcessors) {
    EXPECT_EQ(parse_processors("0-2,5,7-8\n"), (std::vector{0, 1, 2, 5, 7, 8}));
    EXPECT_EQ(parse_processors("3"), std::vector{3});
    for (const char* none : {"", "\n", "x", "1-", "-1", "3-1", "1;2", "0-99999999", "99999999999999999999"})
        EXPECT_EQ(parse_processors(none), std::vector<int>()) << none;
}

TEST_F(Topology, NodesHaveTheProcessorsThatAreAllowed) {
    node("node1", "2-3,6-7");
    node("node0", "0-1,4-5");
    node("node10", "8-9");
    node("node2", "");  // memory alone
    node("nonsense", "0-9");
    EXPECT_EQ(numa_nodes(set({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), folder_),
              (std::vector<NumaNode>{{0, {0, 1, 4, 5}}, {1, {2, 3, 6, 7}}, {10, {8, 9}}}));
    EXPECT_EQ(numa_nodes(set({3, 8}), folder_), (std::vector<NumaNode>{{1, {3}}, {10, {8}}}));
    EXPECT_EQ(numa_nodes(set({3, 77}), folder_), (std::vector<NumaNode>{{1, {3, 77}}})) << "none is left out";
    EXPECT_EQ(numa_nodes(set({0, 2}), folder_ + "/missing"), (std::vector<NumaNode>{{0, {0, 2}}}));
}

TEST_F(Topology, LanesAreSpreadByProcessors) {
    NumaNode large{0, {0, 1, 2, 3}}, small{1, {4, 5}};
    EXPECT_EQ(spread({large, small}, 6), (std::vector<size_t>{0, 0, 1, 0, 0, 1}));
    NumaNode same{1, {4, 5, 6, 7}};
    EXPECT_EQ(spread({large, same}, 4), (std::vector<size_t>{0, 1, 0, 1}));
    EXPECT_EQ(spread({large}, 3), (std::vector<size_t>{0, 0, 0}));
    EXPECT_EQ(spread({small, large}, 1), std::vector<size_t>{1});
}

TEST_F(Topology, ThisMachineThreadsAndMemory) {
    std::vector<NumaNode> nodes = numa_nodes();
    ASSERT_FALSE(nodes.empty());
    ASSERT_FALSE(nodes[0].processors.empty());
    std::thread([&] {
        EXPECT_TRUE(bind_thread(nodes[0]));
        EXPECT_EQ(numa_nodes(), std::vector<NumaNode>{nodes[0]});
    }).join();
    void* memory = mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)prefer_node(memory, 1 << 20, nodes[0].number);  // a container may forbid it
    static_cast<char*>(memory)[5] = 'x';
    EXPECT_FALSE(prefer_node(memory, 1 << 20, -1));
    munmap(memory, 1 << 20);
}

}  // namespace
}  // namespace fabric::io
