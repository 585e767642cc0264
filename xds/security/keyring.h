// The cluster's keys, by epoch. A rotation adds the next epoch to every node's file, waits, then lets that epoch sign,
// and at last removes the old one: no restart, no moment at which a valid ticket is refused.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "xds/security/hmac.h"

namespace fabric::xds::security {

// What a key is used for: each use has a working key of its own (WIRE.md section 4).
enum class Use { ticket, capability, secret };

class Keyring {
  public:
    // Lines `EPOCH KEY` with the key as 64 hexadecimal digits, `#` comments, and one line `sign EPOCH` (without it the
    // highest epoch signs). Errors name `source` and the line, never a key.
    static Result<std::shared_ptr<Keyring>> parse(std::string_view text, const std::string& source);
    // Refuses a file that others than its owner can read.
    static Result<std::shared_ptr<Keyring>> load(const std::string& path);

    uint32_t signing_epoch() const;
    // Empty: the epoch is not in the ring.
    std::optional<Key> working_key(uint32_t epoch, Use use) const;
    // Takes over the keys of a ring that was read again. Thread safe, as is all of it.
    void replace(const Keyring& other);

  private:
    struct Epoch {
        Key ticket, capability, secret;
    };
    mutable std::mutex mutex_;
    std::map<uint32_t, Epoch> epochs_;
    uint32_t signing_ = 0;
};

}  // namespace fabric::xds::security
