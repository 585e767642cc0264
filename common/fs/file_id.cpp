#include "common/fs/file_id.h"

#include <algorithm>
#include <cstring>

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

// include/linux/exportfs.h, fs/xfs/xfs_export.h: enum fid_type.
uint64_t FileId::inode() const {
    constexpr int inode32_gen = 1, inode32_gen_parent = 2, xfs_inode64_gen = 0x81, xfs_inode64_gen_parent = 0x82;
    auto read = [this]<typename T>(T number) -> uint64_t {
        if (kernel().size() < sizeof number) return 0;
        std::memcpy(&number, kernel().data(), sizeof number);
        return number;
    };
    switch (kernel_type()) {
        case inode32_gen:
        case inode32_gen_parent:
            return read(uint32_t{});
        case xfs_inode64_gen:
        case xfs_inode64_gen_parent:
            return read(uint64_t{});
        default:
            return 0;
    }
}

bool FileId::operator==(const FileId& other) const { return std::ranges::equal(bytes(), other.bytes()); }

}  // namespace fabric::fs
