#include "common/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace fabric {
namespace {

// A CRC register is a polynomial over GF(2) with its bits reversed: bit 31 is the coefficient of x^0.
constexpr uint32_t polynomial = 0x82F63B78;

constexpr uint32_t times_x(uint32_t value) { return (value >> 1) ^ ((value & 1) ? polynomial : 0); }

constexpr uint32_t multiply(uint32_t a, uint32_t b) {
    uint32_t product = 0;
    for (uint32_t bit = 0x80000000; bit != 0; bit >>= 1) {
        if (a & bit) product ^= b;
        b = times_x(b);
    }
    return product;
}

// x^(8 * bytes): what a register is multiplied by when `bytes` zero bytes follow.
constexpr uint32_t shift_by(uint64_t bytes) {
    uint32_t result = 0x80000000;  // 1
    uint32_t square = 0x00800000;  // x^8
    for (; bytes != 0; bytes >>= 1) {
        if (bytes & 1) result = multiply(result, square);
        square = multiply(square, square);
    }
    return result;
}

using Table = std::array<std::array<uint32_t, 256>, 8>;

// tables[k][b]: byte b followed by k zero bytes.
constexpr Table make_slices() {
    Table tables{};
    for (uint32_t byte = 0; byte < 256; ++byte) {
        uint32_t value = byte;
        for (int bit = 0; bit < 8; ++bit) value = times_x(value);
        tables[0][byte] = value;
    }
    for (size_t k = 1; k < 8; ++k)
        for (size_t byte = 0; byte < 256; ++byte)
            tables[k][byte] = (tables[k - 1][byte] >> 8) ^ tables[0][tables[k - 1][byte] & 0xff];
    return tables;
}

constexpr Table slices = make_slices();

uint64_t load64(const unsigned char* bytes) {
    uint64_t value;
    std::memcpy(&value, bytes, sizeof value);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    return value;
}

#if defined(__x86_64__)

// The instruction has a latency of three cycles and starts once a cycle: three independent runs over neighbouring
// stretches keep it busy, and their registers are joined by a multiplication, done by table. Short ones for what is
// left of long ones: a sixteenth of 64 KiB, and all of a small file.
constexpr size_t long_stretch = 2048;
constexpr size_t short_stretch = 256;

using ShiftTable = std::array<std::array<uint32_t, 256>, 4>;
constexpr ShiftTable make_shift(uint64_t bytes) {
    ShiftTable table{};
    uint32_t factor = shift_by(bytes);
    for (size_t position = 0; position < 4; ++position)
        for (uint32_t byte = 0; byte < 256; ++byte) table[position][byte] = multiply(byte << (8 * position), factor);
    return table;
}
template <size_t stretch>
constexpr ShiftTable shift_one = make_shift(stretch);
template <size_t stretch>
constexpr ShiftTable shift_two = make_shift(2 * stretch);

uint32_t shifted(const ShiftTable& table, uint32_t value) {
    return table[0][value & 0xff] ^ table[1][(value >> 8) & 0xff] ^ table[2][(value >> 16) & 0xff] ^
           table[3][value >> 24];
}

struct Extended {
    uint64_t crc;
    const unsigned char* bytes;
    size_t length;  // what is left
};

template <size_t stretch>
__attribute__((target("sse4.2"))) Extended extend_by(uint64_t a, const unsigned char* bytes, size_t length) {
    for (; length >= 3 * stretch; bytes += 3 * stretch, length -= 3 * stretch) {
        uint64_t b = 0, c = 0;
        for (size_t i = 0; i < stretch; i += 8) {
            a = _mm_crc32_u64(a, load64(bytes + i));
            b = _mm_crc32_u64(b, load64(bytes + stretch + i));
            c = _mm_crc32_u64(c, load64(bytes + 2 * stretch + i));
        }
        a = shifted(shift_two<stretch>, static_cast<uint32_t>(a)) ^
            shifted(shift_one<stretch>, static_cast<uint32_t>(b)) ^ c;
    }
    return {a, bytes, length};
}

__attribute__((target("sse4.2"))) uint32_t extend_hardware(uint32_t crc, const void* data, size_t size) {
    Extended most = extend_by<long_stretch>(~crc, static_cast<const unsigned char*>(data), size);
    auto [a, bytes, length] = extend_by<short_stretch>(most.crc, most.bytes, most.length);
    for (; length >= 8; bytes += 8, length -= 8) a = _mm_crc32_u64(a, load64(bytes));
    auto narrow = static_cast<uint32_t>(a);
    for (; length > 0; ++bytes, --length) narrow = _mm_crc32_u8(narrow, *bytes);
    return ~narrow;
}

const bool has_instruction = __builtin_cpu_supports("sse4.2");

#endif

}  // namespace

uint32_t crc32c_extend_portable(uint32_t crc, const void* data, size_t length) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    crc = ~crc;
    for (; length >= 8; bytes += 8, length -= 8) {
        uint64_t word = load64(bytes) ^ crc;
        crc = 0;
        for (int k = 0; k < 8; ++k) crc ^= slices[7 - k][(word >> (8 * k)) & 0xff];
    }
    for (; length > 0; ++bytes, --length) crc = (crc >> 8) ^ slices[0][(crc ^ *bytes) & 0xff];
    return ~crc;
}

uint32_t crc32c_extend(uint32_t crc, const void* data, size_t length) {
#if defined(__x86_64__)
    if (has_instruction) return extend_hardware(crc, data, length);
#endif
    return crc32c_extend_portable(crc, data, length);
}

bool crc32c_is_hardware() {
#if defined(__x86_64__)
    return has_instruction;
#else
    return false;
#endif
}

// The inversions cancel: extending A's register by B is shifting it over B's length and adding B's.
uint32_t crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t length_b) {
    return multiply(crc_a, shift_by(length_b)) ^ crc_b;
}

}  // namespace fabric
