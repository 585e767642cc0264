#include "xds/transport/verbs/gather.h"

#include <algorithm>

namespace fabric::xds::transport {

Cut cut(std::span<const iovec> memory, std::span<const wire::Segment> segments, size_t from, size_t to,
        std::span<iovec> parts) {
    Cut result;
    size_t into = from;
    auto segment = segments.begin();
    while (segment != segments.end() && into >= segment->length) into -= (segment++)->length;
    if (segment == segments.end() || from >= to) return result;
    result.address = segment->address + into;
    result.rkey = segment->rkey;
    size_t wanted = std::min(segment->length - into, to - from);
    size_t skip = from;
    for (const iovec& part : memory) {
        if (wanted == 0 || result.parts == parts.size()) break;
        if (skip >= part.iov_len) {
            skip -= part.iov_len;
            continue;
        }
        size_t now = std::min(part.iov_len - skip, wanted);
        parts[result.parts++] = {static_cast<char*>(part.iov_base) + skip, now};
        result.length += static_cast<uint32_t>(now);
        wanted -= now;
        skip = 0;
    }
    return result;
}

}  // namespace fabric::xds::transport
