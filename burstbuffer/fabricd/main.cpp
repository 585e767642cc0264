// fabricd: serves a directory tree of this node to XDS clients.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "burstbuffer/fabricd/cached_reads.h"
#include "burstbuffer/fabricd/gateway.h"
#include "burstbuffer/node/node.h"
#include "common/fault.h"
#include "common/log.h"
#include "common/metrics_http.h"
#include "xds/fabricd/notify.h"
#include "xds/fabricd/settings.h"
#include "xds/security/agent.h"
#include "xds/target/target.h"

namespace {

using namespace fabric;
using namespace fabric::xds;

constexpr int failed = 1, wrong_settings = 2;

int complain(const Status& status, int code) {
    std::fprintf(stderr, "fabricd: %s\n", status.message().c_str());
    return code;
}

// Signals are taken by sigwait(3) alone, so that none interrupts a system call of another thread.
sigset_t block_signals() {
    sigset_t set;
    sigemptyset(&set);
    for (int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    signal(SIGPIPE, SIG_IGN);
    return set;
}

// What start-up would find wrong, without listening or changing anything.
Status check(const fabricd::Settings& settings) {
    if (!settings.target.key_file.empty())
        if (Result<std::shared_ptr<security::Keyring>> keys = security::Keyring::load(settings.target.key_file);
            !keys.ok())
            return keys.status();
    if (!settings.burst_buffer.empty()) {
        if (Result<node::Settings> buffer = node::load_settings(settings.burst_buffer); !buffer.ok())
            return buffer.status();
    }
    Result<std::unique_ptr<target::Tree>> tree = target::Tree::open(settings.target);
    return tree.status();
}

// The burst buffer of this node, if it has one.
Result<std::unique_ptr<node::Node>> start_node(const fabricd::Settings& settings, fs::FilesystemTable& filesystems) {
    if (settings.burst_buffer.empty()) return std::unique_ptr<node::Node>();
    Result<node::Settings> buffer = node::load_settings(settings.burst_buffer);
    if (!buffer.ok()) return buffer.status();
    return node::Node::start(*buffer, filesystems);
}

Status add_filesystem(fs::FilesystemTable& filesystems, const std::string& root) {
    UniqueFd directory(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct stat status;
    if (!directory || ::fstat(directory.get(), &status) != 0)
        return Status::from_errno(errno, "xds.root: open " + root);
    return filesystems.find_or_open(status.st_dev, std::move(directory), root).status();
}

int serve(const fabricd::Settings& settings, const sigset_t& signals) {
    fs::FilesystemTable filesystems;
    Result<std::unique_ptr<node::Node>> node = start_node(settings, filesystems);
    if (!node.ok()) return complain(node.status(), node.status().code() == Code::config ? wrong_settings : failed);
    std::unique_ptr<fabricd::CachedReads> cache;
    if (*node != nullptr) {
        // What is served is what can be cached.
        if (Status known = add_filesystem(filesystems, settings.target.root); !known.ok())
            return complain(known, failed);
        cache = std::make_unique<fabricd::CachedReads>((*node)->cache());
    }
    std::unique_ptr<fabricd::Gateway> gateway;
    if (!settings.gateway.empty()) gateway = std::make_unique<fabricd::Gateway>(settings.gateway);
    Result<std::unique_ptr<target::Target>> target = target::Target::start(settings.target, cache.get(), gateway.get());
    if (!target.ok()) return complain(target.status(), failed);
    std::unique_ptr<security::Agent> agent;
    if (!settings.agent.empty()) {
        auto started = security::Agent::start(settings.agent, (*target)->shared_keys(), settings.target.cluster,
                                              settings.ticket_seconds);
        if (!started.ok()) return complain(started.status(), failed);
        agent = std::move(*started);
    }
    std::unique_ptr<metrics::HttpServer> metrics;
    if (!settings.metrics.empty()) {
        auto started = metrics::HttpServer::start(settings.metrics);
        if (!started.ok()) return complain(started.status(), failed);
        metrics = std::move(*started);
    }
    std::printf("xds_port=%d\nxds_rdma=%s\npid=%d\n", (*target)->port(), (*target)->rdma().ok() ? "on" : "off",
                static_cast<int>(getpid()));
    if (*node != nullptr) std::printf("control_socket=%s\n", (*node)->socket().c_str());
    if (metrics != nullptr) std::printf("metrics_port=%d\n", metrics->port());
    std::fflush(stdout);
    fabricd::notify_service_manager("READY=1\nSTATUS=serving " + settings.target.root);
    for (int signal = 0; sigwait(&signals, &signal) == 0;) {
        if (signal != SIGHUP) break;
        fabricd::notify_service_manager("RELOADING=1");
        Status status = (*target)->reload_keys();
        if (status.ok())
            log::info("fabricd: the key file was read again");
        else
            log::error("fabricd: the old keys stay: {}", status.message());
        fabricd::notify_service_manager("READY=1");
    }
    log::info("fabricd: draining, for {} s at most", settings.drain_seconds);
    fabricd::notify_service_manager("STOPPING=1\nSTATUS=draining");
    (*target)->drain(std::chrono::seconds(settings.drain_seconds));
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app(
        "fabricd serves a directory tree of this node to XDS clients.\n"
        "SIGTERM: answers what it has, then ends. SIGHUP: reads the key file again.\n"
        "Prints xds_port=, xds_rdma=, pid=, control_socket= and metrics_port= lines when it is ready.");
    std::string path = "/etc/fabric/fabricd.yaml";
    bool check_only = false;
    app.add_option("-c,--config", path, "configuration file (YAML)")->capture_default_str();
    app.add_flag("--check", check_only, "check the configuration, the key file and the export root, and end");
    app.set_version_flag("--version", FABRIC_VERSION);
    CLI11_PARSE(app, argc, argv);

    Result<fabricd::Settings> settings = fabricd::load_settings(path);
    if (!settings.ok()) return complain(settings.status(), wrong_settings);
    if (check_only) {
        if (Status status = check(*settings); !status.ok()) return complain(status, wrong_settings);
        std::printf("%s: right\n", path.c_str());
        return 0;
    }
    log::set_level(settings->log_level);
    sigset_t signals = block_signals();
    // Files get the mode that the client asked for, with the client's own umask applied.
    umask(0);
    if (Status status = fault::arm_from_environment(); !status.ok()) return complain(status, wrong_settings);
    return serve(*settings, signals);
}
