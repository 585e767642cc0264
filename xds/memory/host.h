// Ordinary memory of the process.
#pragma once

#include "xds/memory/kind.h"

namespace fabric::xds::memory {

const Kind& host();

// Host memory whose owner says when it begins and ends, so that it can stay registered: an allocation with an id of its
// own.
Place host_place(const void* start, size_t size);

}  // namespace fabric::xds::memory
