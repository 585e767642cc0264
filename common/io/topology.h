// Processors of this machine by NUMA node, and threads and memory bound to them.
#pragma once

#include <sched.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace fabric::io {

struct NumaNode {
    int number = 0;               // as the kernel counts
    std::vector<int> processors;  // that may be used

    bool operator==(const NumaNode&) const = default;
};

// "0-3,8,10-11" as sysfs writes lists of processors; what is no list is empty.
std::vector<int> parse_processors(std::string_view list);

// The nodes that have processors in `allowed`, by number. One node with all of them where the kernel tells of none
// (`folder` is missing). Every processor that is allowed is in one.
std::vector<NumaNode> numa_nodes(const cpu_set_t& allowed, const std::string& folder = "/sys/devices/system/node");
// With the processors that this thread may use.
std::vector<NumaNode> numa_nodes();

// The index in `nodes` of each of `lanes` threads: as many on a node as its share of the processors, neighbours on
// different nodes.
std::vector<size_t> spread(const std::vector<NumaNode>& nodes, size_t lanes);

// The calling thread runs on the node's processors alone, and its memory is the node's. False: the kernel did not want
// to, and nothing is lost but speed.
bool bind_thread(const NumaNode& node);
// Memory that is touched from now on comes from the node while it has some, else from others.
bool prefer_node(void* memory, size_t length, int node);

}  // namespace fabric::io
