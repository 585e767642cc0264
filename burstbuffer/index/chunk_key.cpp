#include "burstbuffer/index/chunk_key.h"

#include <span>

#include "burstbuffer/index/coding.h"

namespace fabric::index {

namespace {
// Signed times keep their order as unsigned numbers with the sign bit turned.
constexpr uint64_t sign = uint64_t{1} << 63;
uint64_t ordered(int64_t time) { return static_cast<uint64_t>(time) ^ sign; }
int64_t time_of(uint64_t value) { return static_cast<int64_t>(value ^ sign); }
}  // namespace

std::string key_prefix(const fs::FileId& file) {
    std::string key;
    append(key, static_cast<uint8_t>(file.bytes().size()));
    key.append(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
    return key;
}

std::string key_prefix(const fs::FileId& file, const FileVersion& version) {
    std::string key = key_prefix(file);
    append(key, version.size);
    append(key, ordered(version.mtime));
    append(key, ordered(version.ctime));
    return key;
}

std::string ChunkKey::encode() const {
    std::string key = key_prefix(file, version);
    append(key, number);
    return key;
}

Result<ChunkKey> ChunkKey::decode(std::string_view bytes) {
    Decoder decoder(bytes);
    std::string_view id = decoder.take_bytes(decoder.take<uint8_t>());
    FileVersion version;
    version.size = decoder.take<uint64_t>();
    version.mtime = time_of(decoder.take<uint64_t>());
    version.ctime = time_of(decoder.take<uint64_t>());
    auto number = decoder.take<uint32_t>();
    if (!decoder.complete()) return Status(Code::corrupt, EINVAL, "chunk key of a wrong length");
    Result<fs::FileId> file = fs::FileId::parse({reinterpret_cast<const uint8_t*>(id.data()), id.size()});
    if (!file.ok()) return Status(Code::corrupt, EINVAL, "chunk key: " + file.status().message());
    return ChunkKey{.file = *file, .version = version, .number = number};
}

}  // namespace fabric::index
