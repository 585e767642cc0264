// First byte: the message's type; the rest: its body. What decodes must encode to the same bytes.
#include <cstdlib>
#include <vector>

#include "xds/protocol/codec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace fabric::xds::wire;
    if (size == 0) return 0;
    Bytes body(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
    auto parsed = parse_body(static_cast<Type>(data[0]), body);
    if (!parsed.ok()) return 0;
    static std::vector<std::byte> out(max_message);
    auto length = encode({}, *parsed, out);
    if (!length.ok() || *length - header_size > body.size()) std::abort();
    if (std::memcmp(out.data() + header_size, body.data(), *length - header_size) != 0) std::abort();
    (void)print(*parsed);
    if (size > header_size) {
        HeaderBytes header;
        std::memcpy(header.data(), data, header_size);
        (void)decode_body(header, Bytes(reinterpret_cast<const std::byte*>(data), size).subspan(header_size));
    }
    return 0;
}
