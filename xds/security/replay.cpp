#include "xds/security/replay.h"

namespace fabric::xds::security {

ReplayWindow::Answer ReplayWindow::admit(const Id& nonce, uint64_t time_ns, uint64_t now_ns) {
    uint64_t distance = time_ns > now_ns ? time_ns - now_ns : now_ns - time_ns;
    if (distance > window_ns_) return Answer::wrong_time;
    std::lock_guard lock(mutex_);
    // Whose time has left the window would be refused by its time alone.
    while (!by_time_.empty() && by_time_.begin()->first + window_ns_ < now_ns) {
        nonces_.erase(by_time_.begin()->second);
        by_time_.erase(by_time_.begin());
    }
    if (nonces_.contains(nonce)) return Answer::replayed;
    if (nonces_.size() >= capacity_) return Answer::full;
    nonces_.insert(nonce);
    by_time_.emplace(time_ns, nonce);
    return Answer::fresh;
}

}  // namespace fabric::xds::security
