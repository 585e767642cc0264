// `fabricctl cluster ...`: the pool's nodes, at etcd.
#pragma once

#include <CLI/CLI.hpp>

#include "burstbuffer/fabricctl/fsck.h"

namespace fabric::ctl {

void add_cluster(CLI::App& app, Action& action);

}  // namespace fabric::ctl
