// Cuts a transfer between this side's memory and segments of the peer's into work requests: arithmetic alone.
#pragma once

#include <sys/uio.h>

#include <span>

#include "xds/protocol/types.h"

namespace fabric::xds::transport {

struct Cut {
    uint64_t address = 0;  // of the peer
    uint32_t rkey = 0;
    uint32_t length = 0;  // bytes, all parts together
    unsigned parts = 0;
};

// What one work request can move of bytes [from, to): a contiguous range of one segment, in at most parts.size() parts
// of this side. length is 0 when the segments or the memory end before `to`.
Cut cut(std::span<const iovec> memory, std::span<const wire::Segment> segments, size_t from, size_t to,
        std::span<iovec> parts);

// The part [at, at + length) of the segments taken as one, appended to `out`. False: it reaches behind their end.
template <typename Segments, typename Out>
bool slice_segments(const Segments& segments, uint64_t at, uint64_t length, Out& out) {
    for (size_t i = 0; i < segments.size() && length > 0; ++i) {
        wire::Segment segment = segments[i];
        if (at >= segment.length) {
            at -= segment.length;
            continue;
        }
        uint64_t now = segment.length - at;
        if (now > length) now = length;
        out.push_back({segment.address + at, segment.rkey, static_cast<uint32_t>(now)});
        length -= now;
        at = 0;
    }
    return length == 0;
}

}  // namespace fabric::xds::transport
