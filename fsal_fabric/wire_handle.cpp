#include "fsal_fabric/wire_handle.h"

#include <algorithm>

namespace fabric::fsal {
namespace {

// FNV-1a: it need only differ between exports and be the same for ever.
uint32_t fold(std::span<const uint8_t> bytes) {
    uint32_t hash = 2166136261U;
    for (uint8_t byte : bytes) hash = (hash ^ byte) * 16777619U;
    return hash;
}

void put_tag(uint32_t tag, uint8_t* to) {
    for (int i = 0; i < 4; ++i) to[i] = static_cast<uint8_t>(tag >> (8 * i));
}

uint32_t get_tag(const uint8_t* bytes) {
    uint32_t tag = 0;
    for (int i = 0; i < 4; ++i) tag |= static_cast<uint32_t>(bytes[i]) << (8 * i);
    return tag;
}

}  // namespace

uint32_t WireHandle::export_tag(const fs::FileId& root) { return fold(root.bytes()); }

size_t WireHandle::write(uint32_t tag, const fs::FileId& id, std::span<uint8_t> to) {
    std::span<const uint8_t> bytes = id.bytes();
    if (to.size() < prefix + bytes.size()) return 0;
    to[0] = format;
    put_tag(tag, &to[1]);
    std::ranges::copy(bytes, to.begin() + prefix);
    return prefix + bytes.size();
}

Result<fs::FileId> WireHandle::parse(std::span<const uint8_t> bytes) {
    if (bytes.size() <= prefix || bytes[0] != format) return Status(Code::invalid, EINVAL, "not a handle of ours");
    return fs::FileId::parse(bytes.subspan(prefix));
}

Result<fs::FileId> WireHandle::read(uint32_t tag, std::span<const uint8_t> bytes) {
    Result<fs::FileId> id = parse(bytes);
    if (id.ok() && get_tag(&bytes[1]) != tag) return Status(Code::io, ESTALE, "handle of another export");
    return id;
}

}  // namespace fabric::fsal
