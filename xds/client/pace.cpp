#include "xds/client/pace.h"

#include <algorithm>

namespace fabric::xds::client {
namespace {

constexpr double weight_of_newest = 0.25;

}  // namespace

// Lengths are of one of four sizes: below 64 KiB, 1 MiB, 16 MiB, and above.
Pace::Key Pace::key_of(const Sort& sort) {
    unsigned size = 0;
    for (uint64_t bound = 64 << 10; size < 3 && sort.length >= bound; bound <<= 4) ++size;
    return {sort.kind, sort.device, sort.reads, size};
}

bool Pace::measured(const Cell& cell) { return std::min(cell.samples[0], cell.samples[1]) >= first_samples; }

Pace::Route Pace::best(const Cell& cell) {
    if (cell.samples[0] < first_samples) return Route::direct;
    if (cell.samples[1] < first_samples) return Route::staged;
    return cell.rate[0] >= cell.rate[1] ? Route::direct : Route::staged;
}

Pace::Route Pace::choose(const Sort& sort) {
    std::lock_guard lock(mutex_);
    Cell& cell = cells_[key_of(sort)];
    Route route = best(cell);
    if (measured(cell) && ++cell.requests % again_every == 0)
        route = route == Route::direct ? Route::staged : Route::direct;
    return route;
}

Pace::Route Pace::likely(const Sort& sort) const {
    std::lock_guard lock(mutex_);
    auto found = cells_.find(key_of(sort));
    return found == cells_.end() ? Route::direct : best(found->second);
}

bool Pace::measured(const Sort& sort) const {
    std::lock_guard lock(mutex_);
    auto found = cells_.find(key_of(sort));
    return found != cells_.end() && measured(found->second);
}

void Pace::add(const Sort& sort, Route route, uint64_t bytes, std::chrono::nanoseconds took) {
    if (bytes == 0 || took.count() <= 0) return;
    double rate = static_cast<double>(bytes) * 1e9 / static_cast<double>(took.count());
    std::lock_guard lock(mutex_);
    Cell& cell = cells_[key_of(sort)];
    auto at = static_cast<size_t>(route);
    cell.rate[at] = cell.samples[at] == 0 ? rate : cell.rate[at] + weight_of_newest * (rate - cell.rate[at]);
    ++cell.samples[at];
}

}  // namespace fabric::xds::client
