// One read or write, done when the call returns, whichever way the file is used.
#pragma once

#include "xds/client/data_operation.h"

namespace fabric::xds::client {

// Bytes moved: fewer than `length` only at the end of the file. Not from the context's reactor thread.
Result<size_t> transfer(File& file, DataOperation::Direction direction, void* memory, size_t length, off_t offset);

}  // namespace fabric::xds::client
