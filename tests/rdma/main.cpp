// rdma-rogue: an NFS/RDMA client that sends what no client should, and checks what comes back.
//
//   rdma-rogue list
//   rdma-rogue --server ADDRESS [--port PORT] --mount-port PORT [--path EXPORT] [--pid PID] SCENARIO
//   rdma-rogue ... fuzz --seed N --seconds S
//
// Exit status: 0 the server behaved, 1 it did not (the reason is on stderr), 2 the command line is wrong.
#include <getopt.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/rdma/fuzz.h"
#include "tests/rdma/scenario.h"

namespace {

struct Arguments {
    rogue::ServerOptions server{{"", "20049"}, "", "/export", 0};
    uint32_t seed = 1;
    int seconds = 10;
    std::string what;
};

Arguments parse(int argc, char** argv) {
    static const option known[] = {
        {"server", required_argument, nullptr, 's'},     {"port", required_argument, nullptr, 'p'},
        {"mount-port", required_argument, nullptr, 'm'}, {"path", required_argument, nullptr, 'e'},
        {"pid", required_argument, nullptr, 'i'},        {"seed", required_argument, nullptr, 'n'},
        {"seconds", required_argument, nullptr, 't'},    {nullptr, 0, nullptr, 0}};
    Arguments arguments;
    for (int c; (c = getopt_long(argc, argv, "", known, nullptr)) != -1;) {
        switch (c) {
            case 's':
                arguments.server.rdma.address = optarg;
                break;
            case 'p':
                arguments.server.rdma.port = optarg;
                break;
            case 'm':
                arguments.server.mount_port = optarg;
                break;
            case 'e':
                arguments.server.path = optarg;
                break;
            case 'i':
                arguments.server.pid = std::atoi(optarg);
                break;
            case 'n':
                arguments.seed = static_cast<uint32_t>(std::strtoul(optarg, nullptr, 10));
                break;
            case 't':
                arguments.seconds = std::atoi(optarg);
                break;
            default:
                std::exit(2);
        }
    }
    if (optind + 1 != argc) {
        std::fprintf(stderr, "rdma-rogue: one scenario, \"fuzz\" or \"list\" is expected\n");
        std::exit(2);
    }
    arguments.what = argv[optind];
    return arguments;
}

int list() {
    for (const rogue::Scenario& scenario : rogue::all_scenarios())
        std::printf("%-34s %s\n", scenario.name.c_str(), scenario.shows.c_str());
    return 0;
}

int run(const Arguments& arguments) {
    auto scenarios = rogue::all_scenarios();
    auto found = std::ranges::find(scenarios, arguments.what, &rogue::Scenario::name);
    if (found == scenarios.end() && arguments.what != "fuzz") {
        std::fprintf(stderr, "rdma-rogue: no scenario is named %s; see rdma-rogue list\n", arguments.what.c_str());
        return 2;
    }
    try {
        if (arguments.what == "fuzz") {
            rogue::fuzz(arguments.server, arguments.seed, arguments.seconds);
        } else {
            found->run(arguments.server);
            if (found->spoils) rogue::check_alive(arguments.server);
        }
    } catch (const rogue::Failure& failure) {
        std::fprintf(stderr, "rdma-rogue: %s: %s\n", arguments.what.c_str(), failure.what());
        return 1;
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    Arguments arguments = parse(argc, argv);
    if (arguments.what == "list") return list();
    if (arguments.server.rdma.address.empty() || arguments.server.mount_port.empty()) {
        std::fprintf(stderr, "rdma-rogue: --server and --mount-port are required\n");
        return 2;
    }
    return run(arguments);
}
