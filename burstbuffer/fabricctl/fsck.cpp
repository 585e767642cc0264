#include "burstbuffer/fabricctl/fsck.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "burstbuffer/fabricctl/exit.h"
#include "burstbuffer/store/fsck.h"

namespace fabric::ctl {

namespace {

int check(const store::FsckOptions& options) {
    using store::Finding;
    Result<store::FsckReport> report = store::fsck(options, [](const Finding& finding) {
        fmt::print("{}{}\n", finding.repaired ? "repaired: " : "found: ", finding.what);
    });
    if (!report.ok()) {
        fmt::print(stderr, "fabricctl: {}\n", report.status().message());
        return fsck_failed;
    }
    fmt::print("{}: {} records, {} of them not yet drained, {} bytes; {} findings, {} repaired\n", options.folder,
               report->records, report->dirty, report->bytes, report->found, report->repaired);
    if (report->found == 0) return all_well;
    return report->repaired == report->found ? fsck_repaired : fsck_left;
}

}  // namespace

void add_fsck(CLI::App& app, Action& action) {
    auto options = std::make_shared<store::FsckOptions>();
    CLI::App* fsck = app.add_subcommand(
        "fsck",
        "Compares a store's index with its segments. The store must not be in use.\n"
        "Exit status: 0 sound, 1 all findings repaired, 4 findings left, 8 the check failed, 16 wrong usage.");
    fsck->add_option("FOLDER", options->folder, "the store's folder")->required();
    fsck->add_flag(
        "--repair", options->repair,
        "drop clean records that are damaged and make anew what the index derives; data that the backing store "
        "does not have is never dropped");
    fsck->add_flag("--data", options->data, "read every record and compare its checksums");
    fsck->callback([&action, options] { action = [options] { return check(*options); }; });
}

}  // namespace fabric::ctl
