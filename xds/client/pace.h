// Which of two ways to memory of an accelerator is faster on this machine, directly or through host memory: by
// measuring both (a card may reach a GPU's memory more slowly than the GPU copies it, depending on what lies between).
#pragma once

#include <array>
#include <chrono>
#include <map>
#include <mutex>
#include <tuple>

#include "xds/memory/kind.h"

namespace fabric::xds::client {

// Thread safe. The first requests of a sort go directly, the next ones through host memory, all others the faster way,
// but for one in `again_every`, which goes the other way: what is true may change.
class Pace {
  public:
    static constexpr unsigned first_samples = 4;
    static constexpr unsigned again_every = 128;

    enum class Route { direct, staged };
    struct Sort {
        const memory::Kind* kind = nullptr;
        int device = -1;
        bool reads = true;
        uint64_t length = 0;  // bytes; requests of about the same length are compared
    };

    Route choose(const Sort& sort);
    // As choose(), without counting it as a request.
    Route likely(const Sort& sort) const;
    // True: both ways were measured.
    bool measured(const Sort& sort) const;
    void add(const Sort& sort, Route route, uint64_t bytes, std::chrono::nanoseconds took);

  private:
    using Key = std::tuple<const memory::Kind*, int, bool, unsigned>;
    struct Cell {
        std::array<unsigned, 2> samples{};
        std::array<double, 2> rate{};  // bytes a second, of late
        unsigned requests = 0;
    };
    static Key key_of(const Sort& sort);
    static Route best(const Cell& cell);
    static bool measured(const Cell& cell);

    mutable std::mutex mutex_;
    std::map<Key, Cell> cells_;
};

}  // namespace fabric::xds::client
