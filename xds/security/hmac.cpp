#include "xds/security/hmac.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <cstdlib>
#include <vector>

namespace fabric::xds::security {

Digest hmac(const Key& key, std::string_view label, std::initializer_list<std::span<const std::byte>> parts) {
    std::vector<unsigned char> input(label.begin(), label.end());
    for (std::span<const std::byte> part : parts) {
        const auto* bytes = reinterpret_cast<const unsigned char*>(part.data());
        input.insert(input.end(), bytes, bytes + part.size());
    }
    Digest digest{};
    unsigned length = 0;
    const unsigned char* done = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), input.data(), input.size(),
                                     reinterpret_cast<unsigned char*>(digest.data()), &length);
    // Only a broken OpenSSL gets here, and a digest of zeros that everybody can guess must not leave this function.
    if (done == nullptr || length != digest.size()) std::abort();
    return digest;
}

bool equal_in_constant_time(const Digest& a, const Digest& b) {
    return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Id random_id() {
    Id id;
    // 16 bytes come whole or not at all (getrandom(2)), and this kernel call has no other failure than an interrupt.
    while (getrandom(id.data(), id.size(), 0) != static_cast<ssize_t>(id.size())) {
    }
    return id;
}

}  // namespace fabric::xds::security
