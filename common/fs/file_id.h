// The lasting name of a file: the UUID of its file system and the kernel's file handle (name_to_handle_at(2)). It
// survives restarts, remounts and new device numbers, and it is the same on every machine that mounts the file system.
#pragma once

#include <fcntl.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/result.h"

namespace fabric::fs {

using FilesystemUuid = std::array<uint8_t, 16>;

// Bytes: UUID (16), kernel handle type (1), kernel handle (1 to 37). ext4 uses 8 bytes of handle, XFS 12, btrfs 20,
// Lustre 32. 54 bytes at most, so that an NFSv3 handle (64 bytes, of which Ganesha takes 5) has room for it and for
// the front end's own 5 bytes.
class FileId {
  public:
    static constexpr size_t kernel_max = 37;
    static constexpr size_t prefix = sizeof(FilesystemUuid) + 1;
    static constexpr size_t max_bytes = prefix + kernel_max;

    // From bytes that came from outside: every length is checked.
    static Result<FileId> parse(std::span<const uint8_t> bytes);
    // From the kernel. A handle that is too long, or whose type does not fit a byte, is EOVERFLOW.
    static Result<FileId> make(const FilesystemUuid& filesystem, int kernel_type, std::span<const uint8_t> kernel);

    std::span<const uint8_t> bytes() const { return {bytes_.data(), size_}; }
    FilesystemUuid filesystem() const;
    int kernel_type() const { return bytes_[sizeof(FilesystemUuid)]; }
    std::span<const uint8_t> kernel() const { return bytes().subspan(prefix); }

    // The number of the inode, when the kernel handle is of a kind that holds it (ext4, XFS and others), else 0.
    uint64_t inode() const;

    bool operator==(const FileId& other) const;

  private:
    FileId() = default;

    uint8_t size_ = 0;
    std::array<uint8_t, max_bytes> bytes_{};
};

}  // namespace fabric::fs
