// Messages of the control socket: a length (4 bytes, little-endian), then so many bytes of JSON.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>

#include "common/result.h"

namespace fabric::control {

using Json = nlohmann::json;

constexpr size_t longest_message = size_t{1} << 20;  // bytes

// Waits until all of it is taken. EPIPE: the other end is gone.
Status send(int socket, const Json& message);
// Waits for all of a message, for `limit` between two pieces of it at most (0: for ever). ECONNRESET: the other end is
// gone. Code::corrupt: what came is no message; nothing more can be read from this socket.
Result<Json> receive(int socket, std::chrono::milliseconds limit);

}  // namespace fabric::control
