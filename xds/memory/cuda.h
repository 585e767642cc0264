// Memory of NVIDIA GPUs, by the CUDA driver API, which is loaded at run time: one build serves machines with and
// without a GPU.
#pragma once

#include "xds/memory/kind.h"

namespace fabric::xds::memory {

// Null: there is no driver or no device on this machine. The first call loads the driver; it prints nothing.
const Kind* cuda();

}  // namespace fabric::xds::memory
