// The handle that a client holds: a format byte, four bytes that name the export, and the FileId.
//
// Ganesha puts the export's number in front, which a client can change. The four bytes are made from the export's root
// directory, so a handle that was given out under one export is refused under another that is on the same file system.
#pragma once

#include <span>

#include "common/fs/file_id.h"

namespace fabric::fsal {

class WireHandle {
  public:
    static constexpr uint8_t format = 1;
    static constexpr size_t prefix = 1 + sizeof(uint32_t);
    static constexpr size_t max_bytes = prefix + fs::FileId::max_bytes;
    // NFSv3 handles have 64 bytes, of which Ganesha takes 5 (include/nfs_fh.h).
    static_assert(max_bytes <= 59);

    // What stands for an export whose root is `root`.
    static uint32_t export_tag(const fs::FileId& root);
    // Number of bytes written to `to`; 0 when it is too small.
    static size_t write(uint32_t tag, const fs::FileId& id, std::span<uint8_t> to);
    // Bytes from the network. Garbage is Code::invalid; a sound handle of another export is ESTALE.
    static Result<fs::FileId> read(uint32_t tag, std::span<const uint8_t> bytes);
    // The same without asking which export: for handles that Ganesha kept.
    static Result<fs::FileId> parse(std::span<const uint8_t> bytes);
};

}  // namespace fabric::fsal
