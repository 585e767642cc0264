// fabricctl: the administrator's program for the burst buffer.
#include <CLI/CLI.hpp>

#include "burstbuffer/fabricctl/cluster.h"
#include "burstbuffer/fabricctl/exit.h"
#include "burstbuffer/fabricctl/fsck.h"
#include "burstbuffer/fabricctl/orders.h"

int main(int argc, char** argv) {
    using namespace fabric::ctl;
    CLI::App app("fabricctl looks after a node's burst buffer.");
    app.require_subcommand(1);
    Action action;
    add_fsck(app, action);
    add_orders(app, action);
    add_cluster(app, action);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? all_well : wrong_usage;
    }
    return action();
}
