// XDR (RFC 4506) by hand: a test must be able to write what no encoder would.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace rogue {

using Bytes = std::vector<uint8_t>;

/// A check of a scenario did not hold, or an answer could not be understood. Used within this program only.
struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

inline void check(bool condition, const std::string& what) {
    if (!condition) throw Failure(what);
}

inline uint32_t round_up4(uint32_t size) { return (size + 3) & ~uint32_t{3}; }

/// Appends big-endian words and opaques.
class Encoder {
  public:
    Encoder& u32(uint32_t value) {
        for (int shift = 24; shift >= 0; shift -= 8) bytes_.push_back(static_cast<uint8_t>(value >> shift));
        return *this;
    }
    Encoder& u64(uint64_t value) { return u32(static_cast<uint32_t>(value >> 32)).u32(static_cast<uint32_t>(value)); }
    Encoder& fixed(std::span<const uint8_t> data) {
        bytes_.insert(bytes_.end(), data.begin(), data.end());
        while (bytes_.size() % 4) bytes_.push_back(0);
        return *this;
    }
    Encoder& opaque(std::span<const uint8_t> data) { return u32(static_cast<uint32_t>(data.size())).fixed(data); }
    Encoder& string(std::string_view text) {
        return opaque({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
    }
    Encoder& append(const Encoder& other) {
        bytes_.insert(bytes_.end(), other.bytes_.begin(), other.bytes_.end());
        return *this;
    }
    size_t size() const { return bytes_.size(); }
    const Bytes& bytes() const { return bytes_; }

  private:
    Bytes bytes_;
};

/// Reads what an Encoder writes; throws Failure at the end of the data.
class Decoder {
  public:
    explicit Decoder(std::span<const uint8_t> data) : data_(data) {}

    uint32_t u32() {
        auto raw = take(4);
        return uint32_t{raw[0]} << 24 | uint32_t{raw[1]} << 16 | uint32_t{raw[2]} << 8 | raw[3];
    }
    uint64_t u64() {
        uint64_t high = u32();
        return high << 32 | u32();
    }
    Bytes fixed(uint32_t size) {
        auto data = take(size);
        Bytes result(data.begin(), data.end());
        for (uint8_t pad : take(round_up4(size) - size)) check(pad == 0, "XDR padding is not zero");
        return result;
    }
    Bytes opaque() { return fixed(u32()); }
    void skip(size_t size) { take(size); }
    size_t left() const { return data_.size(); }

  private:
    std::span<const uint8_t> take(size_t size) {
        check(size <= data_.size(), "the reply ends before its time");
        auto result = data_.first(size);
        data_ = data_.subspan(size);
        return result;
    }

    std::span<const uint8_t> data_;
};

}  // namespace rogue
