// RPC-over-RDMA version 1 headers (RFC 8166): built well formed or not, and read back.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tests/rdma/xdr.h"

namespace rogue {

enum class Proc : uint32_t { msg = 0, nomsg = 1, msgp = 2, done = 3, error = 4 };
enum class RdmaError : uint32_t { vers = 1, chunk = 2 };

struct Segment {
    uint32_t handle = 0;
    uint32_t length = 0;  // bytes
    uint64_t address = 0;
};

struct ReadEntry {
    uint32_t position = 0;  // bytes from the start of the unreduced XDR stream
    Segment segment;
};

using Chunk = std::vector<Segment>;

/// What stands before the RPC message.
struct Header {
    uint32_t xid = 0;
    uint32_t version = 1;
    uint32_t credits = 128;
    Proc proc = Proc::msg;
    std::vector<ReadEntry> reads = {};
    std::vector<Chunk> writes = {};
    std::optional<Chunk> reply = {};

    Bytes encode() const;
};

/// A received message: header and, for Proc::msg, the RPC message behind it.
struct Received {
    Header header;
    RdmaError error{};                 // for Proc::error
    uint32_t lowest = 0, highest = 0;  // versions, for RdmaError::vers
    Bytes body;
};

/// Throws Failure when the message is not one.
Received decode_message(std::span<const uint8_t> message);

inline uint64_t length_of(const Chunk& chunk) {
    uint64_t total = 0;
    for (const Segment& segment : chunk) total += segment.length;
    return total;
}

}  // namespace rogue
