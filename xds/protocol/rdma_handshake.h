// What the two sides of an RDMA connection tell each other while it is made: the private data of the connection
// manager's request, acceptance and refusal. WIRE.md section 5 is the specification, rdma_vectors.txt the example.
#pragma once

#include <array>

#include "common/result.h"
#include "xds/protocol/archive.h"
#include "xds/protocol/limits.h"

namespace fabric::xds::wire {

inline constexpr uint32_t rdma_magic = 0x52534458;  // "XDSR" in memory
inline constexpr uint8_t rdma_version = 1;
inline constexpr size_t max_queues = 8;               // queue pairs of one connection
inline constexpr uint32_t least_receive_size = 8192;  // bytes: every message but large batches and layouts fits
inline constexpr uint32_t max_24_bits = (1 << 24) - 1;

// Request and acceptance. 44 bytes: the connection manager carries 56 with a request.
struct RdmaHandshake {
    static constexpr size_t wire_size = 44;
    uint8_t speaks = rdma_version;
    uint8_t queues = 1;                          // queue pairs wanted; of an acceptance: granted, at most as many
    uint16_t flags = 0;                          // none defined: 0
    uint32_t receive_size = least_receive_size;  // the longest message that this side takes, bytes
    uint32_t first_psn = 0;  // of this side's queue pairs but the first, which is the connection manager's
    std::array<uint32_t, max_queues - 1> numbers{};  // of those queue pairs
};

enum class RdmaRefusalCause : uint8_t { none, other_version, connections, draining, resources };

// Private data of a refusal.
struct RdmaRefusal {
    static constexpr size_t wire_size = 8;
    uint8_t speaks = rdma_version;  // the version that the refusing side speaks
    RdmaRefusalCause cause = RdmaRefusalCause::none;
    uint16_t reserved = 0;
};

std::array<std::byte, RdmaHandshake::wire_size> encode(const RdmaHandshake& handshake);
std::array<std::byte, RdmaRefusal::wire_size> encode(const RdmaRefusal& refusal);
// `bytes` may be longer: the connection manager pads private data with zeros. EPROTO: not ours; EPROTONOSUPPORT:
// another version.
Result<RdmaHandshake> decode_rdma_handshake(Bytes bytes);
Result<RdmaRefusal> decode_rdma_refusal(Bytes bytes);
// One `name=value` line a field.
std::string print(const RdmaHandshake& handshake);

}  // namespace fabric::xds::wire
