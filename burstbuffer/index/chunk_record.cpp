#include "burstbuffer/index/chunk_record.h"

#include "burstbuffer/index/coding.h"

namespace fabric::index {

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
    append(bytes, length);
    append(bytes, dirty);
    for (size_t i = 0; i < checksum_count(); ++i) append(bytes, checksums[i]);
    return bytes;
}

Result<ChunkRecord> ChunkRecord::decode(std::string_view bytes) {
    Decoder decoder(bytes);
    ChunkRecord record;
    record.place.segment = decoder.take<uint32_t>();
    record.place.block = decoder.take<uint32_t>();
    record.length = decoder.take<uint32_t>();
    record.dirty = decoder.take<uint64_t>();
    if (!decoder.ok() || record.length == 0 || record.length > ChunkKey::chunk_size) {
        return Status(Code::corrupt, EINVAL, "chunk record with an impossible length");
    }
    for (size_t i = 0; i < record.checksum_count(); ++i) record.checksums[i] = decoder.take<uint32_t>();
    if (!decoder.complete()) return Status(Code::corrupt, EINVAL, "chunk record with a wrong number of checksums");
    return record;
}

}  // namespace fabric::index
