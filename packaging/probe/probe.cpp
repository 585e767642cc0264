#include "packaging/probe/probe.h"

#include <algorithm>

namespace fabric::probe {
namespace {

Program program_of(Check check) {
    switch (check) {
        case Check::rpcbind:
            return rpcbind_v2;
        case Check::nfs3:
            return nfs_v3;
        case Check::nfs4:
            return nfs_v4;
        case Check::mount:
        case Check::exports:
            return mount_v3;
    }
    return rpcbind_v2;
}

Status ask_round_trips(RpcClient& client, int count, Finding& finding) {
    std::vector<double> times;
    times.reserve(count);
    for (int i = 0; i < count; ++i) {
        auto start = std::chrono::steady_clock::now();
        FABRIC_RETURN_IF_ERROR(client.null_call());
        times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    }
    finding.round_trips = summarize(std::move(times));
    return {};
}

Status ask(RpcClient& client, int count, Finding& finding) {
    if (finding.check == Check::exports) {
        Result<ExportList> list = client.exports();
        if (!list.ok()) return list.status();
        finding.list = std::move(list).value();
        return {};
    }
    FABRIC_RETURN_IF_ERROR(ask_round_trips(client, count, finding));
    if (finding.check != Check::nfs4) return {};
    for (uint32_t minor = 0; minor <= 2; ++minor) {
        Result<bool> speaks = client.speaks_minor_version(minor);
        if (!speaks.ok()) return speaks.status();
        if (*speaks) finding.minor_versions.push_back(minor);
    }
    return {};
}

Result<uint16_t> find_mount_port(const Options& options) {
    if (options.mount_port != 0) return options.mount_port;
    auto why = [](const std::string& reason) {
        return Status{Code::unavailable, EHOSTUNREACH,
                      "the MOUNT port is not known (" + reason + "); give --mount-port"};
    };
    Result<RpcClient> client = RpcClient::connect({options.host, options.rpcbind_port}, rpcbind_v2, options.timeout);
    if (!client.ok()) return why("rpcbind: " + client.status().message());
    Result<uint16_t> port = client->registered_port(mount_v3);
    if (!port.ok()) return why("rpcbind: " + port.status().message());
    if (*port == 0) return why("rpcbind knows no MOUNT version 3 over TCP");
    return *port;
}

Finding examine(const Options& options, Check check, const Result<uint16_t>& mount_port) {
    Finding finding;
    finding.check = check;
    switch (check) {
        case Check::rpcbind:
            finding.port = options.rpcbind_port;
            break;
        case Check::nfs3:
        case Check::nfs4:
            finding.port = options.nfs_port;
            break;
        case Check::mount:
        case Check::exports:
            finding.status = mount_port.status();
            if (!mount_port.ok()) return finding;
            finding.port = mount_port.value();
    }
    Result<RpcClient> client = RpcClient::connect({options.host, finding.port}, program_of(check), options.timeout);
    finding.status = client.ok() ? ask(*client, options.count, finding) : client.status();
    return finding;
}

}  // namespace

const char* name_of(Check check) {
    switch (check) {
        case Check::rpcbind:
            return "rpcbind";
        case Check::nfs3:
            return "nfs3";
        case Check::nfs4:
            return "nfs4";
        case Check::mount:
            return "mount";
        case Check::exports:
            return "exports";
    }
    return "";
}

size_t Report::failures() const {
    return std::count_if(findings.begin(), findings.end(), [](const Finding& finding) { return !finding.status.ok(); });
}

RoundTrips summarize(std::vector<double> microseconds) {
    if (microseconds.empty()) return {};
    std::sort(microseconds.begin(), microseconds.end());
    size_t half = microseconds.size() / 2;
    double median =
        microseconds.size() % 2 == 1 ? microseconds[half] : (microseconds[half - 1] + microseconds[half]) / 2;
    return {microseconds.front(), median, microseconds.back(), static_cast<int>(microseconds.size())};
}

Report probe(const Options& options) {
    bool needs_mount = std::any_of(options.checks.begin(), options.checks.end(),
                                   [](Check check) { return check == Check::mount || check == Check::exports; });
    Result<uint16_t> mount_port = needs_mount ? find_mount_port(options) : Result<uint16_t>(options.mount_port);
    Report report{options.host, {}};
    for (Check check : options.checks) report.findings.push_back(examine(options, check, mount_port));
    return report;
}

}  // namespace fabric::probe
