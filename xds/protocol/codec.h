// Messages to bytes and back. Bounded by limits.h; decoding allocates nothing (but the text of an error).
#pragma once

#include "common/result.h"
#include "xds/protocol/messages.h"

namespace fabric::xds::wire {

using HeaderBytes = std::array<std::byte, header_size>;

// Writes header and body to the start of `out` and returns their length in bytes. Of `header`, request, credits, flags
// and data_length are taken; the rest is computed. Error: `out` is too small, or a field is above its limit.
Result<size_t> encode(const Header& header, const Body& body, std::span<std::byte> out);

// Checks magic, type and bounds: what a receiver must know before it reads on.
Result<Header> decode_header(const HeaderBytes& bytes);
// Checks the checksum over both and then the fields. The body's text and lists are views into `body`.
Result<Body> decode_body(const HeaderBytes& header, Bytes body);
// The same without the checksum: for fuzzing, whose inputs would else all end there.
Result<Body> parse_body(Type type, Bytes body);

inline Type type_of(const Body& body) { return static_cast<Type>(body.index() + 1); }
const char* name_of(Type type);
const char* name_of(Cause cause);
// One `name=value` line a field.
std::string print(const Body& body);

// A request takes one of the credits that its receiver granted; replies and the rest do not.
bool needs_credit(Type type);

}  // namespace fabric::xds::wire
