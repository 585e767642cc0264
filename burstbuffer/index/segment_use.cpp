#include "burstbuffer/index/segment_use.h"

#include "burstbuffer/index/coding.h"

namespace fabric::index {

SegmentUse& SegmentUse::operator+=(const SegmentUse& other) {
    bytes += other.bytes;
    records += other.records;
    dirty += other.dirty;
    return *this;
}

std::string SegmentUse::encode() const {
    std::string encoded;
    for (int64_t value : {bytes, records, dirty}) append(encoded, static_cast<uint64_t>(value));
    return encoded;
}

Result<SegmentUse> SegmentUse::decode(std::string_view encoded) {
    Decoder decoder(encoded);
    SegmentUse use;
    for (int64_t* value : {&use.bytes, &use.records, &use.dirty}) {
        *value = static_cast<int64_t>(decoder.take<uint64_t>());
    }
    if (!decoder.complete()) return Status(Code::corrupt, EINVAL, "segment use of a wrong length");
    return use;
}

}  // namespace fabric::index
