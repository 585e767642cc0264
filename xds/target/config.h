// What a target is told.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "xds/security/hmac.h"

namespace fabric::xds::target {

// When file data bypasses the page cache.
enum class Direct {
    automatic,  // large transfers, unless their bytes are in the page cache already
    always,     // whatever its size, where the file system can
    never,
};

enum class Rdma {
    automatic,  // where this machine has it
    required,
    off,
};

struct Config {
    // HOST:PORT; port 0 takes a free one. RDMA listens at the same address and port, in its own port space.
    std::string listen = "0.0.0.0:20053";
    Rdma rdma = Rdma::automatic;
    // Queue pairs of an RDMA connection, at most. 1 to 8.
    unsigned rdma_queues = 4;
    // The directory tree that is served.
    std::string root;
    // Name of this node in replies and errors; empty: the host name.
    std::string node;
    // Network threads; 0: one a processor, at most 16.
    unsigned lanes = 0;
    // Threads for calls that block: open, stat, small-file batches.
    unsigned workers = 4;
    // Requests that one connection may have unanswered. 1 to 4096.
    uint16_t credits = 64;
    unsigned connections = 4096;
    // Bytes of file data in memory at once: of all connections, and of one.
    size_t bytes_in_flight = size_t{512} << 20;
    size_t connection_bytes = size_t{64} << 20;
    // Memory for file data out of the huge pages that the administrator reserved (vm.nr_hugepages), while there are
    // some.
    bool reserved_huge_pages = false;
    Direct direct = Direct::automatic;
    // Bytes from which a transfer is large.
    size_t direct_from = 256 << 10;
    // Files that one connection may have open.
    unsigned open_files = 4096;
    // A peer that takes or sends nothing of a transfer for so long is cut off.
    unsigned stall_seconds = 60;

    // Who may connect. Without a key file everybody may, and acts as anonymous_uid and anonymous_gid.
    std::string key_file;
    security::Id cluster{};
    uint32_t anonymous_uid = 65534, anonymous_gid = 65534;
    unsigned capability_seconds = 3600;
    // How far a client's clock may be off, and for how long its nonce is remembered.
    unsigned clock_seconds = 60;
};

}  // namespace fabric::xds::target
