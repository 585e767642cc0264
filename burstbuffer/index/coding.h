// Integers in keys and values of the index: big-endian, so that the order of bytes is the order of numbers.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace fabric::index {

template <std::unsigned_integral T>
void append(std::string& to, T value) {
    for (size_t i = sizeof(T); i-- > 0;) to.push_back(static_cast<char>(value >> (8 * i)));
}

// Takes values off the front of bytes that may be damaged: after a read past the end every value is 0 and ok() false.
class Decoder {
  public:
    explicit Decoder(std::string_view bytes) : rest_(bytes) {}

    template <std::unsigned_integral T>
    T take() {
        std::string_view bytes = take_bytes(sizeof(T));
        T value = 0;
        for (char byte : bytes) value = static_cast<T>(value << 8 | static_cast<uint8_t>(byte));
        return value;
    }
    std::string_view take_bytes(size_t count) {
        if (count > rest_.size()) {
            ok_ = false;
            rest_ = {};
            return {};
        }
        std::string_view bytes = rest_.substr(0, count);
        rest_.remove_prefix(count);
        return bytes;
    }
    bool ok() const { return ok_; }
    // Everything was there and nothing is left over.
    bool complete() const { return ok_ && rest_.empty(); }

  private:
    std::string_view rest_;
    bool ok_ = true;
};

}  // namespace fabric::index
