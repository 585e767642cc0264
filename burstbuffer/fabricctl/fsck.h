// `fabricctl fsck`.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace fabric::ctl {

// What a subcommand that was given does; its result is the exit status.
using Action = std::function<int()>;

void add_fsck(CLI::App& app, Action& action);

}  // namespace fabric::ctl
