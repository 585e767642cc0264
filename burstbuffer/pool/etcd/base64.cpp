#include "burstbuffer/pool/etcd/base64.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace fabric::etcd {
namespace {

constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr uint8_t none = 0xff;

constexpr std::array<uint8_t, 256> values() {
    std::array<uint8_t, 256> table{};
    table.fill(none);
    for (size_t at = 0; at < alphabet.size(); ++at) {
        table[static_cast<unsigned char>(alphabet[at])] = static_cast<uint8_t>(at);
    }
    return table;
}

}  // namespace

std::string to_base64(std::string_view bytes) {
    std::string text;
    text.reserve((bytes.size() + 2) / 3 * 4);
    for (size_t at = 0; at < bytes.size(); at += 3) {
        size_t count = std::min<size_t>(3, bytes.size() - at);
        uint32_t three = 0;
        for (size_t one = 0; one < 3; ++one) {
            three = three << 8 | (one < count ? static_cast<unsigned char>(bytes[at + one]) : 0);
        }
        for (size_t one = 0; one < 4; ++one) {
            text += one <= count ? alphabet[three >> (18 - 6 * one) & 63] : '=';
        }
    }
    return text;
}

std::optional<std::string> from_base64(std::string_view text) {
    static constexpr std::array<uint8_t, 256> table = values();
    if (text.size() % 4 != 0) return std::nullopt;
    size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
    std::string bytes;
    bytes.reserve(text.size() / 4 * 3);
    uint32_t bits = 0;
    for (size_t at = 0; at < text.size() - padding; ++at) {
        uint8_t value = table[static_cast<unsigned char>(text[at])];
        if (value == none) return std::nullopt;
        bits = bits << 6 | value;
        // Each character completes a byte, but for the first of four.
        unsigned left = at % 4 == 0 ? 6 : 6 - 2 * (at % 4);
        if (at % 4 != 0) {
            bytes += static_cast<char>(bits >> left & 0xff);
            bits &= (1U << left) - 1;
        }
    }
    if (bits != 0) return std::nullopt;
    return bytes;
}

}  // namespace fabric::etcd
