// xds-info: what this machine has for XDS, and which way data would go.
#include <fcntl.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <vector>

#include "xds/tools/remote.h"

namespace fabric::xds::tools {
namespace {

std::vector<std::string> names_in(const std::string& folder) {
    std::vector<std::string> names;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(folder, none))
        names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
}

std::string first_line(const std::string& path) {
    std::string line;
    std::ifstream(path) >> line;
    return line.empty() ? "-" : line;
}

void print_devices() {
    std::vector<std::string> cards = names_in("/sys/class/infiniband");
    for (const std::string& card : cards)
        std::printf("rdma %s: NUMA node %s, port 1 %s\n", card.c_str(),
                    first_line("/sys/class/infiniband/" + card + "/device/numa_node").c_str(),
                    first_line("/sys/class/infiniband/" + card + "/ports/1/state").c_str());
    if (cards.empty()) std::printf("rdma: no device on this machine\n");
    for (const std::string& name : names_in("/sys/class/net")) {
        if (name == "lo") continue;
        std::printf("net %s: %s, %s Mbit/s, NUMA node %s\n", name.c_str(),
                    first_line("/sys/class/net/" + name + "/operstate").c_str(),
                    first_line("/sys/class/net/" + name + "/speed").c_str(),
                    first_line("/sys/class/net/" + name + "/device/numa_node").c_str());
    }
    std::vector<std::string> gpus = names_in("/proc/driver/nvidia/gpus");
    for (const std::string& gpu : gpus)
        std::printf("gpu %s: NUMA node %s\n", gpu.c_str(),
                    first_line("/sys/bus/pci/devices/" + gpu + "/numa_node").c_str());
    if (gpus.empty()) std::printf("gpu: no NVIDIA driver on this machine\n");
    std::printf("transports of this build: rdma, tcp\n");
}

void explain(const File& file, const char* kind, void* memory, size_t length) {
    char line[512];
    int size = xds_explain(file.get(), memory, length, line, sizeof line);
    std::printf("%s memory: %s\n", kind, size < 0 ? xds_error() : line);
}

int ask_target(const std::string& address, const std::string& agent, const std::string& path) {
    auto start = std::chrono::steady_clock::now();
    Result<Context> context = Context::open(address, agent, false);
    if (!context.ok()) {
        std::fprintf(stderr, "xds-info: %s\n", context.status().message().c_str());
        return 1;
    }
    std::printf("target: connected in %.2f ms\n",
                std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    if (path.empty()) return 0;
    Result<File> file = File::open(*context, path, O_RDONLY, 0);
    if (!file.ok()) {
        std::fprintf(stderr, "xds-info: %s\n", file.status().message().c_str());
        return 1;
    }
    Result<uint64_t> size = file->size();
    std::printf("file %s: %llu bytes\n", path.c_str(), size.ok() ? static_cast<unsigned long long>(*size) : 0ULL);
    char host[4096];
    explain(*file, "host", host, sizeof host);
    if (void* sim = xds_sim_alloc(4096, 0)) {
        explain(*file, "sim", sim, 4096);
        xds_sim_free(sim);
    }
    return 0;
}

}  // namespace
}  // namespace fabric::xds::tools

int main(int argc, char** argv) {
    using namespace fabric::xds::tools;
    CLI::App app(
        "xds-info shows the devices that XDS could use, whether a target answers, and which way data of a file would "
        "go.\n"
        "Exit status: 0, or 1 when the target or the file cannot be reached, or 2 for wrong usage.");
    std::string address, agent, file;
    app.add_option("--address", address, "target, HOST:PORT (default: XDS_ADDRESS)");
    app.add_option("--agent", agent, "the node's agent socket (default: XDS_AGENT)");
    app.add_option("--file", file, "a file of the target: say which way its data goes to each kind of memory");
    app.set_version_flag("--version", xds_version());
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    std::printf("libxds %s\n", xds_version());
    print_devices();
    if (address.empty() && std::getenv("XDS_ADDRESS") == nullptr) {
        std::printf("target: none asked (set --address or XDS_ADDRESS)\n");
        return file.empty() ? 0 : 2;
    }
    return ask_target(address, agent, file);
}
