// Mutates valid RPC-over-RDMA messages and sends them in bursts; after each burst a fresh client must get right
// answers.
#pragma once

#include <cstdint>

#include "tests/rdma/client.h"

namespace rogue {

/// Throws Failure, which names the burst's seed, when the server dies, hangs or gives wrong bytes. The same seed sends
/// the same.
void fuzz(const ServerOptions& server, uint32_t seed, int seconds);

}  // namespace rogue
