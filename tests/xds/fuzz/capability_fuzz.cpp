// The input is sealed with the right key, so that the parser behind the seal sees it.
#include "xds/security/capability.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace fabric::xds::security;
    static const std::shared_ptr<Keyring> keys = *Keyring::parse("1 " + std::string(64, '1'), "fuzz");
    if (size < 8 || size > 900) return 0;
    for (Use use : {Use::ticket, Use::capability}) {
        std::string bytes(reinterpret_cast<const char*>(data), size);
        bytes.replace(4, 4, std::string("\1\0\0\0", 4));
        bytes[0] = use == Use::ticket ? 'T' : 'C';
        bytes[1] = 1;
        Digest digest = hmac(*keys->working_key(1, use), {}, {std::as_bytes(std::span(bytes))});
        bytes.append(reinterpret_cast<const char*>(digest.data()), digest.size());
        Expected expected;
        std::memcpy(expected.cluster.data(), data, 8);
        (void)open_ticket(*keys, bytes, expected);
        (void)open_capability(*keys, bytes, expected);
        (void)open_capability(*keys, {reinterpret_cast<const char*>(data), size}, expected);
    }
    return 0;
}
