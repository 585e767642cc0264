// What nfs-probe asks a server, and what it found.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/result.h"
#include "packaging/probe/rpc_client.h"

namespace fabric::probe {

enum class Check { rpcbind, nfs3, nfs4, mount, exports };
inline constexpr Check all_checks[] = {Check::rpcbind, Check::nfs3, Check::nfs4, Check::mount, Check::exports};
// The name on the command line and in the output.
const char* name_of(Check check);

struct Options {
    std::string host = "127.0.0.1";
    uint16_t nfs_port = 2049;
    uint16_t rpcbind_port = 111;
    uint16_t mount_port = 0;  // 0: ask rpcbind for it
    int count = 10;           // NULL calls a check, at least 1
    std::chrono::milliseconds timeout{5000};
    std::vector<Check> checks{std::begin(all_checks), std::end(all_checks)};
};

// Round-trip times of NULL calls on one connection, in microseconds.
struct RoundTrips {
    double min = 0, median = 0, max = 0;
    int count = 0;
};

struct Finding {
    Check check;
    uint16_t port = 0;  // 0: not known
    Status status;
    RoundTrips round_trips;                // of all but Check::exports
    std::vector<uint32_t> minor_versions;  // of Check::nfs4: which of 4.0, 4.1, 4.2 it speaks
    ExportList list;                       // of Check::exports
};

struct Report {
    std::string host;
    std::vector<Finding> findings;

    size_t failures() const;
};

RoundTrips summarize(std::vector<double> microseconds);

// Asks everything in options.checks, one after another; never fails as a whole.
Report probe(const Options& options);

}  // namespace fabric::probe
