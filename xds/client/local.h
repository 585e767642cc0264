// Files that this process reads and writes itself.
#pragma once

#include "xds/client/data_operation.h"

namespace fabric::xds::client {

// Blocks. Bytes moved, or a negative errno; memory of kinds that the kernel cannot touch goes through host memory.
int64_t transfer_locally(File& file, DataOperation::Direction direction, void* memory, uint64_t length, uint64_t offset,
                         const memory::Kind& kind);

}  // namespace fabric::xds::client
