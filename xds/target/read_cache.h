// A cache of file data that may stand before the tree's file system. The target knows it by this interface alone: who
// has one, a host of the target, implements it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/fs/file_id.h"
#include "common/result.h"

namespace fabric::xds::target {

class ReadCache {
  public:
    enum class Outcome {
        served,  // `bytes` are at `to`: fewer than asked only at the end of that version of the file
        passed,  // it does not have all of it: the target reads the file
        failed,  // the file's newest bytes are in the cache alone and cannot be read: `status`
    };
    // Must stay, with the memory at `to`, until finished() is called: once, by any thread, perhaps within start().
    struct Request {
        const fs::FileId* file = nullptr;
        uint64_t size = 0;                   // of the file now, bytes; with the times its version
        int64_t mtime_ns = 0, ctime_ns = 0;  // since 1970
        uint64_t offset = 0;
        size_t length = 0;
        char* to = nullptr;
        void (*finished)(Request&) = nullptr;

        Outcome outcome = Outcome::passed;
        size_t bytes = 0;
        Status status;
    };

    virtual ~ReadCache() = default;
    // Returns at once. Thread safe.
    virtual void start(Request& request) = 0;
};

}  // namespace fabric::xds::target
