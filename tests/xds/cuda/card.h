// An RDMA card for tests that have none, or none that reaches an accelerator's memory: the verbs that register memory,
// by their own names, so that they are found before libibverbs' (ibv_reg_mr(3)). With the kernel's rules for dma-bufs.
#pragma once

#include <cstddef>

namespace fabric::xds {

struct Card {
    // errno of each sort of registration of accelerator memory; 0: it works.
    int no_dmabuf = 0, no_peer = 0;
    // Counted: registrations of accelerator memory, and their bytes.
    unsigned dmabufs = 0, peers = 0, live = 0;
    size_t live_bytes = 0, most_bytes = 0;
    // Registrations do not reach a real card: for machines without one.
    bool pretend = false;
};
Card& card();

}  // namespace fabric::xds
