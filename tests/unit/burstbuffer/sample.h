// Keys for the burst buffer's tests.
#pragma once

#include <array>
#include <cstdint>

#include "burstbuffer/index/chunk_key.h"

namespace fabric {

inline fs::FileId sample_file(uint64_t number, size_t handle_size = 8) {
    fs::FilesystemUuid uuid{};
    uuid[0] = 0xfa;
    std::array<uint8_t, fs::FileId::kernel_max> handle{};
    for (size_t i = 0; i < sizeof(number); ++i) handle[i] = static_cast<uint8_t>(number >> (8 * i));
    return fs::FileId::make(uuid, 1, {handle.data(), handle_size}).value();
}

inline index::ChunkKey sample_key(uint64_t file, uint32_t number = 0, int64_t mtime = 1) {
    return {.file = sample_file(file), .version = {.size = 1 << 20, .mtime = mtime, .ctime = mtime}, .number = number};
}

}  // namespace fabric
