// What a message may be at most: receivers refuse more before they allocate anything. WIRE.md lists the same values.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fabric::xds::wire {

inline constexpr uint32_t magic = 0x31534458;  // "XDS1" in memory
inline constexpr uint16_t version = 1;

inline constexpr size_t header_size = 32;        // bytes
inline constexpr size_t max_body = 64 * 1024;    // bytes behind the header, inline data not counted
inline constexpr size_t max_data = 4096 * 1024;  // bytes of inline data, or that one request moves by RDMA
inline constexpr size_t max_message = header_size + max_body;

inline constexpr size_t max_path = 4096;  // bytes, no terminating zero
inline constexpr size_t max_node = 255;
inline constexpr size_t max_text = 1024;    // a human-readable cause
inline constexpr size_t max_handle = 128;   // MAX_HANDLE_SZ of name_to_handle_at(2)
inline constexpr size_t max_ticket = 1024;  // bytes of a ticket or capability
inline constexpr size_t max_segments = 64;  // memory segments of one request
inline constexpr size_t max_many = 1024;    // files of one read_many
inline constexpr size_t max_members = 1024;

}  // namespace fabric::xds::wire
