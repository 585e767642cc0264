// One transfer between memory and a file, as the I/O engine takes it.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "common/io/budget.h"

namespace fabric::io {

enum class Op : uint8_t { read, write, fsync, fdatasync, fallocate };

// Embedded in the caller's own per-call object: the engine allocates nothing for it. It, its iovec and the memory
// behind must stay until complete() is called.
struct Request {
    Op op = Op::read;
    int fd = -1;
    uint64_t offset = 0;
    // Bytes to move, at most what the iovec holds; for fallocate the length of the range.
    size_t length = 0;
    const iovec* iov = nullptr;
    int iov_count = 0;
    // RWF_* for read and write (pwritev2(2)), the mode for fallocate(2).
    int flags = 0;
    // 0 for buffered I/O; with O_DIRECT the file system's alignment in bytes, a power of two, which offset, lengths
    // and addresses must have: a continued transfer goes on from the last aligned byte.
    uint32_t alignment = 0;
    // The export's own limit on bytes in flight, beside the engine's; may be null.
    Budget* budget = nullptr;

    // Called once, from the lane's thread; it must not block. The engine does not touch the request any more.
    void (*complete)(Request&) = nullptr;

    // Results. error: 0 or a positive errno. done: bytes moved before that. A read that ends with done < length and
    // without error met the end of the file as read(2) told it; with O_DIRECT a caller compares with the file's size,
    // since there the end and a short transfer look alike.
    int error = 0;
    size_t done = 0;

    // The engine's own.
    Request* next = nullptr;
    Budget::Waiter waiter;
    class Engine* engine = nullptr;
    uint32_t retries = 0;
    iovec part{};
};

}  // namespace fabric::io
