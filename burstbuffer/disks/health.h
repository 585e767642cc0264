// What is known of a disk that fails now and then: whether to use it, when to try it again, when to give it up.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>

namespace fabric::disks {

using Time = std::chrono::steady_clock::time_point;
using Duration = std::chrono::milliseconds;

// Thread safe. It asks no clock: the caller says what time it is.
//
// A few failures in a short time send the disk to rest. After the rest it is probed: if that goes well it is used
// again, else it rests twice as long. So many rests in a row, and it is retired for as long as the process lives. A
// disk that fails again soon after a good probe goes on in the same row, so that one which only passes its probes is
// given up too. With the defaults that takes two minutes at most after the first rest, and what the probes take.
class Health {
  public:
    struct Rules {
        unsigned failures = 3;          // so many ...
        Duration within{10'000};        // ... within this time
        Duration first_rest{1'000};     // doubled each time,
        Duration longest_rest{30'000};  // up to this
        unsigned rests = 8;             // the last of the row ends in retirement
        Duration well_after{300'000};   // without a rest: the row is over
    };
    enum class State { good, resting, retired };

    explicit Health(const Rules& rules) : rules_(rules) {}

    State state() const { return state_.load(std::memory_order_acquire); }
    // A transfer failed. True: with this failure the disk goes to rest.
    bool failed(Time now);
    // It does not answer. True: with this it goes to rest.
    bool hangs(Time now);
    // It rests, and its rest is over.
    bool probe_due(Time now) const;
    // How the probe went.
    void probed(bool well, Time now);
    // At once, whatever went before.
    void retire() { state_.store(State::retired, std::memory_order_release); }

  private:
    void begin_row(Time now);
    void rest(Time now);

    const Rules rules_;
    std::atomic<State> state_{State::good};
    mutable std::mutex mutex_;
    unsigned failures_ = 0;
    Time first_failure_;
    unsigned rests_ = 0;
    Time rest_until_;
    Time good_since_;
};

}  // namespace fabric::disks
