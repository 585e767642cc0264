#include "burstbuffer/disks/health.h"

#include <algorithm>

namespace fabric::disks {

bool Health::failed(Time now) {
    std::lock_guard lock(mutex_);
    if (state() != State::good) return false;
    if (failures_ == 0 || now - first_failure_ > rules_.within) {
        failures_ = 0;
        first_failure_ = now;
    }
    if (++failures_ < rules_.failures) return false;
    begin_row(now);
    return true;
}

bool Health::hangs(Time now) {
    std::lock_guard lock(mutex_);
    if (state() != State::good) return false;
    begin_row(now);
    return true;
}

void Health::begin_row(Time now) {
    if (now - good_since_ > rules_.well_after) rests_ = 0;
    rest(now);
}

void Health::rest(Time now) {
    failures_ = 0;
    if (++rests_ > rules_.rests) return retire();
    Duration length = rules_.first_rest;
    for (unsigned i = 1; i < rests_ && length < rules_.longest_rest; ++i) length *= 2;
    rest_until_ = now + std::min(length, rules_.longest_rest);
    state_.store(State::resting, std::memory_order_release);
}

bool Health::probe_due(Time now) const {
    std::lock_guard lock(mutex_);
    return state() == State::resting && now >= rest_until_;
}

void Health::probed(bool well, Time now) {
    std::lock_guard lock(mutex_);
    if (state() != State::resting) return;
    if (!well) return rest(now);
    good_since_ = now;
    state_.store(State::good, std::memory_order_release);
}

}  // namespace fabric::disks
