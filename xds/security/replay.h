// Refuses a hello that was seen before. Nonces are remembered for as long as their time is within the window, in a
// table of fixed size: only peers that proved who they are get in, and a full table refuses rather than forgets.
#pragma once

#include <cstdint>
#include <mutex>
#include <set>
#include <utility>

#include "xds/security/hmac.h"

namespace fabric::xds::security {

class ReplayWindow {
  public:
    enum class Answer { fresh, replayed, wrong_time, full };

    ReplayWindow(uint64_t window_ns, size_t capacity) : window_ns_(window_ns), capacity_(capacity) {}

    // Remembers the nonce when the answer is `fresh`. Thread safe.
    Answer admit(const Id& nonce, uint64_t time_ns, uint64_t now_ns);

  private:
    const uint64_t window_ns_;
    const size_t capacity_;
    std::mutex mutex_;
    std::set<std::pair<uint64_t, Id>> by_time_;  // time, nonce: what is oldest goes first
    std::set<Id> nonces_;
};

}  // namespace fabric::xds::security
