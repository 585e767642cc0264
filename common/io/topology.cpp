#include "common/io/topology.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

namespace fabric::io {
namespace {

constexpr int most_processors = CPU_SETSIZE;
constexpr unsigned long mask_bits = 8 * sizeof(unsigned long);

std::string first_line(const std::filesystem::path& path) {
    std::string line;
    std::getline(std::ifstream(path) >> std::ws, line);
    return line;
}

// Below 0: it names no node.
int node_number(const std::string& name) {
    int number = -1;
    if (!name.starts_with("node")) return -1;
    auto [end, error] = std::from_chars(name.data() + 4, name.data() + name.size(), number);
    return error == std::errc() && end == name.data() + name.size() ? number : -1;
}

}  // namespace

std::vector<int> parse_processors(std::string_view list) {
    std::vector<int> found;
    const char* at = list.data();
    const char* end = at + list.size();
    while (at < end && *at != '\n') {
        int first = 0;
        auto [after, error] = std::from_chars(at, end, first);
        int last = first;
        if (error == std::errc() && after < end && *after == '-') {
            auto range = std::from_chars(after + 1, end, last);
            after = range.ptr;
            error = range.ec;
        }
        if (error != std::errc() || first < 0 || last < first || last >= most_processors) return {};
        for (int processor = first; processor <= last; ++processor) found.push_back(processor);
        if (after < end && *after != ',' && *after != '\n') return {};
        at = after < end && *after == ',' ? after + 1 : after;
    }
    return found;
}

std::vector<NumaNode> numa_nodes(const cpu_set_t& allowed, const std::string& folder) {
    std::vector<NumaNode> nodes;
    cpu_set_t left = allowed;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
        NumaNode node;
        node.number = node_number(entry.path().filename());
        if (node.number < 0) continue;
        for (int processor : parse_processors(first_line(entry.path() / "cpulist"))) {
            if (!CPU_ISSET(processor, &left)) continue;
            CPU_CLR(processor, &left);
            node.processors.push_back(processor);
        }
        if (!node.processors.empty()) nodes.push_back(std::move(node));
    }
    std::ranges::sort(nodes, {}, &NumaNode::number);
    if (nodes.empty()) nodes.emplace_back();
    for (int processor = 0; processor < most_processors; ++processor)
        if (CPU_ISSET(processor, &left)) nodes.front().processors.push_back(processor);
    return nodes;
}

std::vector<NumaNode> numa_nodes() {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) CPU_SET(0, &allowed);
    return numa_nodes(allowed);
}

std::vector<size_t> spread(const std::vector<NumaNode>& nodes, size_t lanes) {
    std::vector<size_t> result, used(nodes.size());
    for (size_t lane = 0; lane < lanes; ++lane) {
        // The node that would have the most processors for each of its lanes.
        size_t best = 0;
        for (size_t i = 1; i < nodes.size(); ++i)
            if (nodes[i].processors.size() * (used[best] + 1) > nodes[best].processors.size() * (used[i] + 1)) best = i;
        ++used[best];
        result.push_back(best);
    }
    return result;
}

bool bind_thread(const NumaNode& node) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int processor : node.processors) CPU_SET(processor, &set);
    return sched_setaffinity(0, sizeof set, &set) == 0;
}

bool prefer_node(void* memory, size_t length, int node) {
    if (node < 0 || node >= most_processors) return false;
    unsigned long mask[most_processors / mask_bits] = {};
    mask[static_cast<unsigned>(node) / mask_bits] = 1UL << (static_cast<unsigned>(node) % mask_bits);
    // The kernel reads one bit less than it is told of.
    return syscall(SYS_mbind, memory, length, MPOL_PREFERRED, mask, most_processors + 1UL, 0UL) == 0;
}

}  // namespace fabric::io
