// How much of a segment is in use: a sum that writers add to without reading it first.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/result.h"

namespace fabric::index {

struct SegmentUse {
    int64_t bytes = 0;    // of live records, whole blocks
    int64_t records = 0;  // live ones
    int64_t dirty = 0;    // how many of these are dirty

    bool operator==(const SegmentUse&) const = default;
    SegmentUse& operator+=(const SegmentUse& other);
    SegmentUse operator-() const { return {-bytes, -records, -dirty}; }

    std::string encode() const;
    static Result<SegmentUse> decode(std::string_view bytes);
};

}  // namespace fabric::index
