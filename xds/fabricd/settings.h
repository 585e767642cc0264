// fabricd's configuration file (YAML): conf/fabricd.yaml shows every key.
#pragma once

#include <string>

#include "common/log.h"
#include "common/result.h"
#include "xds/target/config.h"

namespace fabric::xds::fabricd {

struct Settings {
    target::Config target;
    std::string agent;  // path of the agent's socket; empty: none
    unsigned ticket_seconds = 12 * 3600;
    std::string metrics;  // HOST:PORT; empty: none
    unsigned drain_seconds = 30;
    std::string gateway;       // control socket of this node's gateway that writes back; empty: there is none
    std::string burst_buffer;  // configuration file of the node's burst buffer; empty: it has none
    log::Level log_level = log::Level::info;
};

// Errors name file, line and key, and what would be right.
Result<Settings> load_settings(const std::string& path);
// The same from text; `name` stands in errors.
Result<Settings> parse_settings(const std::string& text, const std::string& name);

}  // namespace fabric::xds::fabricd
