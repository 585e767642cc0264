// The FABRIC and BurstBuffer blocks of the configuration file and the FSAL block of an export. Each option is described
// in conf/fabric.conf.
#pragma once

#include "fsal_fabric/data/data_ops.h"
#include "fsal_fabric/ganesha.h"

namespace fabric::fsal {

// Filled by Ganesha's parser, member by member.
struct Options {
    char* metrics_address = nullptr;  // HOST:PORT; empty: none
    char* burst_buffer = nullptr;     // the burst buffer's own configuration file; empty: there is none
    uint32_t identity_threads = 16;
    DataConfig data;
};

struct ExportOptions {
    bool cross_mounts = true;
};

// Reads both blocks. False when one has an unknown option or a bad value; `errors` then has the message with file
// and line.
bool read_options(config_file_t file, Options& options, config_error_type& errors);
// The same for the FSAL block of an export, at `node`.
bool read_export_options(void* node, ExportOptions& options, config_error_type& errors);

// Stops the start of the server with `reason` in the log, after what the parser has to say: Ganesha by itself would go
// on without the export. In a server that runs already (the file was read again) it returns.
void refuse_start(config_error_type& errors, const char* reason);

}  // namespace fabric::fsal
