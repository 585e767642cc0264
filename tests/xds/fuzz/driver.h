// What both ways of fuzzing share: the bytes of an input, taken as choices, and the loop around them where libFuzzer is
// not (driver.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace fabric::xds::fuzz {

class Choices {
  public:
    Choices(const uint8_t* data, size_t size) : at_(data), end_(data + size) {}
    bool left() const { return at_ < end_; }
    uint8_t byte() { return left() ? *at_++ : 0; }
    uint64_t below(uint64_t bound) { return bound <= 256 ? byte() % bound : number(bound > 65536 ? 4 : 2) % bound; }
    uint64_t number(unsigned bytes) {
        uint64_t value = 0;
        for (unsigned i = 0; i < bytes; ++i) value = value << 8 | byte();
        return value;
    }
    std::string bytes(size_t length) {
        std::string taken;
        while (taken.size() < length && left()) taken.push_back(static_cast<char>(byte()));
        return taken;
    }
    // Numbers where programs go wrong, and others.
    uint64_t edge() {
        static constexpr uint64_t edges[] = {0,         1,          4095,       4096,      4097,           65535,
                                             65536,     1 << 20,    4194303,    4194304,   4194305,        300'000,
                                             INT32_MAX, UINT32_MAX, 1ULL << 32, INT64_MAX, UINT64_MAX - 1, UINT64_MAX};
        uint8_t which = byte();
        if (which < sizeof edges / sizeof edges[0]) return edges[which];
        return number(which % 5);
    }

  private:
    const uint8_t* at_;
    const uint8_t* end_;
};

// What must never be: says so and stops, so that the input is kept.
[[noreturn]] inline void wrong(const std::string& what) {
    std::fprintf(stderr, "FUZZ: %s\n", what.c_str());
    std::abort();
}
inline void must(bool condition, const char* what) {
    if (!condition) wrong(what);
}

}  // namespace fabric::xds::fuzz
