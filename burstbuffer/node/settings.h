// The burst buffer's configuration file (YAML): conf/burstbuffer.yaml shows every key.
#pragma once

#include <string>
#include <vector>

#include "burstbuffer/cache/cache.h"
#include "burstbuffer/disks/disk.h"
#include "burstbuffer/writeback/options.h"
#include "common/result.h"

namespace fabric::node {

struct Settings {
    std::vector<disks::DiskOptions> disks;
    cache::Cache::Options cache;
    writeback::Options write_back;
    std::vector<cache::Dataset> datasets;
    unsigned backing_threads = 16;                // reads of the backing store at once
    size_t buffer_memory = size_t{512} << 20;     // bytes, for what is on its way
    unsigned lanes = 0;                           // see io::EngineOptions
    std::string socket = "/run/fabric/ctl.sock";  // of fabricctl
    unsigned stage_workers = 8;                   // files that one job reads at once
    // For a node whose own kernel writes its dirty pages to it (a gateway that this machine mounts): no memory of it is
    // paged out, and it may take the memory that writing pages out is kept in reserve for.
    bool self_mounted = false;
};

// Errors name file, line and key, and what would be right.
Result<Settings> load_settings(const std::string& path);
// The same from text; `name` stands in errors.
Result<Settings> parse_settings(const std::string& text, const std::string& name);

}  // namespace fabric::node
