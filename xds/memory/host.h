// Ordinary memory of the process.
#pragma once

#include "xds/memory/kind.h"

namespace fabric::xds::memory {

const Kind& host();

}  // namespace fabric::xds::memory
