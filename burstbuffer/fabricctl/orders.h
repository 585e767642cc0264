// The subcommands that ask a running node: stage, evict, pin, unpin, ls, verify, status, wait, drain,
// flush.
#pragma once

#include <CLI/CLI.hpp>

#include "burstbuffer/fabricctl/fsck.h"

namespace fabric::ctl {

void add_orders(CLI::App& app, Action& action);

}  // namespace fabric::ctl
