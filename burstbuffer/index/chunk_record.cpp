#include "burstbuffer/index/chunk_record.h"

#include "burstbuffer/index/coding.h"

namespace fabric::index {

namespace {
constexpr uint32_t has_lifetime = uint32_t{1} << 31;
constexpr uint8_t is_pinned = 1, has_dataset = 2;  // since format 3
}  // namespace

std::string Place::encode() const {
    std::string bytes;
    append(bytes, segment);
    append(bytes, block);
    return bytes;
}

Result<Place> Place::decode(std::string_view bytes) {
    Decoder decoder(bytes);
    Place place;
    place.segment = decoder.take<uint32_t>();
    place.block = decoder.take<uint32_t>();
    if (!decoder.complete()) return Status(Code::corrupt, EINVAL, "place of a wrong length");
    return place;
}

std::string ChunkRecord::encode() const {
    std::string bytes = place.encode();
    bool ordinary = lifetime == Lifetime();
    append(bytes, length | (ordinary ? 0 : has_lifetime));
    append(bytes, dirty);
    for (size_t i = 0; i < checksum_count(); ++i) append(bytes, checksums[i]);
    if (ordinary) return bytes;
    append(bytes, static_cast<uint8_t>((lifetime.pinned ? is_pinned : 0) | (lifetime.dataset != 0 ? has_dataset : 0)));
    append(bytes, lifetime.expires);
    if (lifetime.dataset != 0) append(bytes, lifetime.dataset);
    return bytes;
}

Result<ChunkRecord> ChunkRecord::decode(std::string_view bytes) {
    Decoder decoder(bytes);
    ChunkRecord record;
    record.place.segment = decoder.take<uint32_t>();
    record.place.block = decoder.take<uint32_t>();
    auto length = decoder.take<uint32_t>();
    record.length = length & ~has_lifetime;
    record.dirty = decoder.take<uint64_t>();
    if (!decoder.ok() || record.length == 0 || record.length > ChunkKey::chunk_size) {
        return Status(Code::corrupt, EINVAL, "chunk record with an impossible length");
    }
    for (size_t i = 0; i < record.checksum_count(); ++i) record.checksums[i] = decoder.take<uint32_t>();
    if ((length & has_lifetime) != 0) {
        auto flags = decoder.take<uint8_t>();
        record.lifetime.pinned = (flags & is_pinned) != 0;
        record.lifetime.expires = decoder.take<uint32_t>();
        if ((flags & has_dataset) != 0) record.lifetime.dataset = decoder.take<uint32_t>();
        if (flags > (is_pinned | has_dataset))
            return Status(Code::corrupt, EINVAL, "chunk record with an impossible lifetime");
    }
    if (!decoder.complete()) return Status(Code::corrupt, EINVAL, "chunk record with a wrong number of checksums");
    return record;
}

}  // namespace fabric::index
