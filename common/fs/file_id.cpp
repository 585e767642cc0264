#include "common/fs/file_id.h"

#include <algorithm>

namespace fabric::fs {

Result<FileId> FileId::parse(std::span<const uint8_t> bytes) {
    if (bytes.size() <= prefix || bytes.size() > max_bytes) return Status(Code::invalid, EINVAL, "file id length");
    FileId id;
    id.size_ = static_cast<uint8_t>(bytes.size());
    std::copy(bytes.begin(), bytes.end(), id.bytes_.begin());
    return id;
}

Result<FileId> FileId::make(const FilesystemUuid& filesystem, int kernel_type, std::span<const uint8_t> kernel) {
    if (kernel.empty() || kernel.size() > kernel_max || kernel_type < 0 || kernel_type > 255) {
        return Status(Code::io, EOVERFLOW, "kernel file handle does not fit");
    }
    FileId id;
    id.size_ = static_cast<uint8_t>(prefix + kernel.size());
    auto at = std::copy(filesystem.begin(), filesystem.end(), id.bytes_.begin());
    *at++ = static_cast<uint8_t>(kernel_type);
    std::copy(kernel.begin(), kernel.end(), at);
    return id;
}

FilesystemUuid FileId::filesystem() const {
    FilesystemUuid uuid;
    std::copy_n(bytes_.begin(), uuid.size(), uuid.begin());
    return uuid;
}

bool FileId::operator==(const FileId& other) const { return std::ranges::equal(bytes(), other.bytes()); }

}  // namespace fabric::fs
