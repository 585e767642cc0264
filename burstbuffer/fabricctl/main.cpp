// fabricctl: looks after the burst buffer. So far: fsck of a local store.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "burstbuffer/store/fsck.h"

namespace {

// As fsck(8) has them.
enum Exit { sound = 0, repaired = 1, left = 4, failed = 8, usage = 16 };

int check(const fabric::store::FsckOptions& options) {
    using namespace fabric::store;
    fabric::Result<FsckReport> report = fsck(options, [](const Finding& finding) {
        fmt::print("{}{}\n", finding.repaired ? "repaired: " : "found: ", finding.what);
    });
    if (!report.ok()) {
        fmt::print(stderr, "fabricctl: {}\n", report.status().message());
        return failed;
    }
    fmt::print("{}: {} records, {} of them not yet drained, {} bytes; {} findings, {} repaired\n", options.folder,
               report->records, report->dirty, report->bytes, report->found, report->repaired);
    if (report->found == 0) return sound;
    return report->repaired == report->found ? repaired : left;
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app("fabricctl looks after the burst buffer's local stores.");
    app.require_subcommand(1);
    fabric::store::FsckOptions options;
    CLI::App* fsck = app.add_subcommand(
        "fsck",
        "Compares a store's index with its segments. The store must not be in use.\n"
        "Exit status: 0 sound, 1 all findings repaired, 4 findings left, 8 the check failed, 16 wrong usage.");
    fsck->add_option("FOLDER", options.folder, "the store's folder")->required();
    fsck->add_flag(
        "--repair", options.repair,
        "drop clean records that are damaged and make anew what the index derives; data that the backing store "
        "does not have is never dropped");
    fsck->add_flag("--data", options.data, "read every record and compare its checksums");
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? sound : usage;
    }
    return check(options);
}
