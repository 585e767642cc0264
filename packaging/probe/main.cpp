// nfs-probe: is an NFS server there, what does it speak, what does it export, how fast does it answer? See
// nfs-probe(1).
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <map>
#include <thread>

#include "packaging/probe/report.h"

namespace {

using fabric::probe::Check;
using std::chrono::duration;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

enum ExitStatus { all_answered = 0, some_failed = 1, usage = 2, none_answered = 3 };

struct Command {
    fabric::probe::Options options;
    double timeout_seconds = 5;
    double wait_seconds = 0;
    bool json = false;
};

void describe(CLI::App& app, Command& command) {
    std::map<std::string, Check> names;
    for (Check check : fabric::probe::all_checks) names[fabric::probe::name_of(check)] = check;
    app.add_option("HOST", command.options.host, "the server")->capture_default_str();
    app.add_option("--nfs-port", command.options.nfs_port, "TCP port of NFS")
        ->check(CLI::Range(1, 65535))
        ->capture_default_str();
    app.add_option("--mount-port", command.options.mount_port, "TCP port of MOUNT; without it rpcbind is asked")
        ->check(CLI::Range(1, 65535));
    app.add_option("--rpcbind-port", command.options.rpcbind_port, "TCP port of rpcbind")
        ->check(CLI::Range(1, 65535))
        ->capture_default_str();
    app.add_option("--only", command.options.checks, "ask only these: rpcbind, nfs3, nfs4, mount, exports")
        ->delimiter(',')
        ->transform(CLI::CheckedTransformer(names).description(""));
    app.add_option("--count", command.options.count, "NULL calls a check")
        ->check(CLI::Range(1, 100000))
        ->capture_default_str();
    app.add_option("--timeout", command.timeout_seconds, "seconds for a connect and for each call")
        ->check(CLI::Range(0.001, 3600.0))
        ->capture_default_str();
    app.add_option("--wait", command.wait_seconds, "try again for so many seconds until everything answers")
        ->check(CLI::Range(0.0, 86400.0));
    app.add_flag("--json", command.json, "print JSON");
    app.footer("Exit status: 0 everything answered, 1 something failed, 2 usage, 3 nothing answered.");
}

}  // namespace

int main(int argc, char** argv) {
    Command command;
    CLI::App app("Asks an NFS server for signs of life: NULL calls, the export list, round-trip times.", "nfs-probe");
    describe(app, command);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? all_answered : usage;
    }
    command.options.timeout = milliseconds(static_cast<int64_t>(command.timeout_seconds * 1000));
    std::signal(SIGPIPE, SIG_IGN);  // a server that resets the connection must not end the probe

    const auto until = steady_clock::now() +
                       std::chrono::duration_cast<steady_clock::duration>(duration<double>(command.wait_seconds));
    fabric::probe::Report report = fabric::probe::probe(command.options);
    while (report.failures() > 0 && steady_clock::now() < until) {
        std::this_thread::sleep_for(milliseconds(100));
        report = fabric::probe::probe(command.options);
    }
    std::string text = command.json ? fabric::probe::to_json(report) : fabric::probe::to_table(report);
    std::fputs(text.c_str(), stdout);
    if (report.failures() == 0) return all_answered;
    if (report.failures() < report.findings.size()) return some_failed;
    if (!command.json)
        std::fputs("Nothing answered: is the gateway running? (packaging/quickstart.sh --status)\n", stderr);
    return none_answered;
}
