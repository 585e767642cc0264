// A probe's report for people and for programs.
#pragma once

#include <string>
#include <string_view>

#include "packaging/probe/probe.h"

namespace fabric::probe {

// Names that came over the network may hold anything: what is no printable ASCII becomes \xNN, a backslash \\.
std::string printable(std::string_view text);

// A table, one line a check, then the exports; ends with a newline.
std::string to_table(const Report& report);

// {"host", "ok", "checks": [{"name", "port", "ok", "error", "rtt_us": {"min", "median", "max", "count"},
//  "minor_versions", "exports": [{"path", "groups"}], "truncated"}]}; keys that do not apply are left out.
std::string to_json(const Report& report);

}  // namespace fabric::probe
