// Memory of NVIDIA GPUs, by the CUDA driver API, which is loaded at run time: one build serves machines with and
// without a GPU.
#pragma once

#include <string>

#include "xds/memory/kind.h"

namespace fabric::xds::memory {

// Null: there is no driver or no device on this machine. The first call loads the driver; it prints nothing.
const Kind* cuda();

// Bytes of a PCI device's window `index`, out of its `resource` file in sysfs (one line a window: first and last
// address, flags); 0: there is none. GPUs of NVIDIA show their memory through window 1.
uint64_t bar_size(const std::string& resources, unsigned index);

// Whether a kernel module is loaded by which network cards register GPU memory by its address; `sysfs` is "/sys".
bool peer_memory_module(const std::string& sysfs);

}  // namespace fabric::xds::memory
