// Base64 as etcd's JSON has keys and values (RFC 4648 §4).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace fabric::etcd {

std::string to_base64(std::string_view bytes);
// Nothing: it is not base64, padding and unused bits included.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace fabric::etcd
