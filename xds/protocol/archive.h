// Three ways over the same description of a message (messages.h): Writer puts it into bytes, Reader takes it out of
// bytes, Printer into text. All integers are little-endian and unaligned. A Reader never allocates: text and lists are
// views into the bytes it reads from, which must outlive the message.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace fabric::xds::wire {

using Bytes = std::span<const std::byte>;

// A list of fixed-size elements: of the caller's array before encoding, or a view of received bytes after decoding.
template <typename T>
class List {
  public:
    List() = default;
    List(std::span<const T> items) : items_(items) {}  // NOLINT: implicit on purpose
    static List decoded(Bytes raw) {
        List list;
        list.raw_ = raw;
        return list;
    }

    size_t size() const { return items_.empty() ? raw_.size() / T::wire_size : items_.size(); }
    bool empty() const { return size() == 0; }
    // i < size().
    T operator[](size_t i) const;

  private:
    std::span<const T> items_;
    Bytes raw_;
};

class Writer {
  public:
    static constexpr bool reads = false;
    explicit Writer(std::span<std::byte> out) : out_(out) {}

    // False: the output was too small or a length above its limit; what was written is of no use.
    bool ok() const { return ok_; }
    size_t size() const { return at_; }

    template <typename T>
    requires std::is_integral_v<T> || std::is_enum_v<T>
    void operator()(std::string_view /*name*/, const T& value) {
        auto bits = static_cast<uint64_t>(value);
        std::byte* to = take(sizeof(T));
        if (to == nullptr) return;
        for (size_t i = 0; i < sizeof(T); ++i) to[i] = static_cast<std::byte>(bits >> (8 * i));
    }
    template <size_t N>
    void operator()(std::string_view /*name*/, const std::array<std::byte, N>& value) {
        if (std::byte* to = take(N)) std::memcpy(to, value.data(), N);
    }
    // Length in 2 bytes (4 for limits above 65535), then the text.
    void text(std::string_view name, const std::string_view& value, size_t limit) {
        if (value.size() > limit) ok_ = false;
        if (limit > UINT16_MAX)
            (*this)(name, static_cast<uint32_t>(value.size()));
        else
            (*this)(name, static_cast<uint16_t>(value.size()));
        if (std::byte* to = take(value.size()); to != nullptr && !value.empty())
            std::memcpy(to, value.data(), value.size());
    }
    template <typename T>
    void list(std::string_view name, const List<T>& value, size_t limit) {
        if (value.size() > limit) ok_ = false;
        (*this)(name, static_cast<uint16_t>(value.size()));
        for (size_t i = 0; ok_ && i < value.size(); ++i) {
            T item = value[i];
            fields(*this, std::as_const(item));
        }
    }
    void check(bool valid) { ok_ = ok_ && valid; }

  private:
    std::byte* take(size_t length) {
        if (!ok_ || length > out_.size() - at_) {
            ok_ = false;
            return nullptr;
        }
        at_ += length;
        return out_.data() + at_ - length;
    }

    std::span<std::byte> out_;
    size_t at_ = 0;
    bool ok_ = true;
};

class Reader {
  public:
    static constexpr bool reads = true;
    explicit Reader(Bytes in) : in_(in) {}

    bool ok() const { return ok_; }
    size_t left() const { return in_.size() - at_; }

    template <typename T>
    requires std::is_integral_v<T> || std::is_enum_v<T>
    void operator()(std::string_view /*name*/, T& value) {
        Bytes from = take(sizeof(T));
        uint64_t bits = 0;
        for (size_t i = 0; i < from.size(); ++i) bits |= static_cast<uint64_t>(from[i]) << (8 * i);
        value = static_cast<T>(bits);
    }
    template <size_t N>
    void operator()(std::string_view /*name*/, std::array<std::byte, N>& value) {
        if (Bytes from = take(N); !from.empty()) std::memcpy(value.data(), from.data(), N);
    }
    void text(std::string_view name, std::string_view& value, size_t limit) {
        uint32_t length = 0;
        if (limit > UINT16_MAX) {
            (*this)(name, length);
        } else {
            uint16_t narrow = 0;
            (*this)(name, narrow);
            length = narrow;
        }
        if (length > limit) ok_ = false;
        Bytes from = take(length);
        value = {reinterpret_cast<const char*>(from.data()), from.size()};
    }
    template <typename T>
    void list(std::string_view name, List<T>& value, size_t limit) {
        uint16_t count = 0;
        (*this)(name, count);
        if (count > limit) ok_ = false;
        value = List<T>::decoded(take(size_t{count} * T::wire_size));
    }
    void check(bool valid) { ok_ = ok_ && valid; }

  private:
    // Empty after a failure, and then of length 0.
    Bytes take(size_t length) {
        if (!ok_ || length > left()) {
            ok_ = false;
            return {};
        }
        at_ += length;
        return in_.subspan(at_ - length, length);
    }

    Bytes in_;
    size_t at_ = 0;
    bool ok_ = true;
};

// One `name=value` line a field; list elements as name[i].field. Bytes and text in hexadecimal. For tests and tools.
class Printer {
  public:
    static constexpr bool reads = false;
    const std::string& text() const { return out_; }

    template <typename T>
    requires std::is_integral_v<T> || std::is_enum_v<T>
    void operator()(std::string_view name, const T& value) {
        line(name, std::to_string(static_cast<std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>(value)));
    }
    template <size_t N>
    void operator()(std::string_view name, const std::array<std::byte, N>& value) {
        line(name, hex({reinterpret_cast<const char*>(value.data()), N}));
    }
    void text(std::string_view name, const std::string_view& value, size_t /*limit*/) { line(name, hex(value)); }
    template <typename T>
    void list(std::string_view name, const List<T>& value, size_t /*limit*/) {
        line(name, std::to_string(value.size()));
        for (size_t i = 0; i < value.size(); ++i) {
            std::string outer = prefix_;
            prefix_ += std::string(name) + "[" + std::to_string(i) + "].";
            T item = value[i];
            fields(*this, std::as_const(item));
            prefix_ = outer;
        }
    }
    void check(bool /*valid*/) {}

  private:
    static std::string hex(std::string_view bytes) {
        static constexpr char digits[] = "0123456789abcdef";
        std::string out;
        for (char c : bytes) {
            out += digits[(c >> 4) & 15];
            out += digits[c & 15];
        }
        return out;
    }
    void line(std::string_view name, const std::string& value) {
        out_ += prefix_ + std::string(name) + "=" + value + "\n";
    }

    std::string out_, prefix_;
};

template <typename T>
T List<T>::operator[](size_t i) const {
    if (!items_.empty()) return items_[i];
    T item;
    Reader reader(raw_.subspan(i * T::wire_size, T::wire_size));
    fields(reader, item);
    return item;
}

// What a description takes: the message to fill when A reads, else the message to look at.
template <typename A, typename T>
using Access = std::conditional_t<A::reads, T, const T>;

// What a message begins with, so that another protocol's bytes are known at once.
template <typename A>
void begins_with(A& a, uint32_t sign) {
    uint32_t found = sign;
    a("magic", found);
    a.check(found == sign);
}

}  // namespace fabric::xds::wire
