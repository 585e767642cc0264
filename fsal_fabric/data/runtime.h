// What the data path has once per process.
#pragma once

#include <memory>
#include <string_view>

#include "burstbuffer/node/node.h"
#include "common/io/buffer_pool.h"
#include "common/io/engine.h"
#include "fsal_fabric/data/data_ops.h"
#include "fsal_fabric/data/reply_memory.h"
#include "fsal_fabric/data/uncommitted.h"

namespace fabric::fsal {

struct DataRuntime {
    DataConfig config;
    std::unique_ptr<io::BufferPool> buffers;
    std::unique_ptr<ReplyMemory> reply_memory;
    std::unique_ptr<io::Engine> engine;
    UncommittedFiles uncommitted;
    std::unique_ptr<node::Node> burst_buffer;  // null: the server has none
};

// Valid between start_data and stop_data.
DataRuntime& data_runtime();

// The verifier that WRITE and COMMIT replies carry (RFC 1813 §3.3.7, RFC 8881 §18.32.3). Another one at each start.
uint64_t write_verifier();
// Acknowledged writes may be lost: every client that has unstable writes must send them again.
void change_write_verifier(std::string_view cause);

}  // namespace fabric::fsal
