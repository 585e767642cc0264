// The few things taken from OpenSSL.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "common/result.h"

namespace fabric::xds::security {

using Key = std::array<std::byte, 32>;
using Digest = std::array<std::byte, 32>;
using Id = std::array<std::byte, 16>;

// HMAC-SHA256 (RFC 2104, FIPS 180-4) over the label followed by the parts.
Digest hmac(const Key& key, std::string_view label, std::initializer_list<std::span<const std::byte>> parts = {});
// Takes the same time wherever the two differ.
bool equal_in_constant_time(const Digest& a, const Digest& b);
// From the kernel's generator (getrandom(2)).
Id random_id();

}  // namespace fabric::xds::security
