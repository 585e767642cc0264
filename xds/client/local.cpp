#include "xds/client/local.h"

#include <unistd.h>

#include <algorithm>
#include <vector>

namespace fabric::xds::client {
namespace {

constexpr size_t piece = 1 << 20;

ssize_t move(int fd, bool read, char* memory, size_t length, uint64_t offset) {
    for (;;) {
        ssize_t done = read ? ::pread(fd, memory, length, static_cast<off_t>(offset))
                            : ::pwrite(fd, memory, length, static_cast<off_t>(offset));
        if (done >= 0 || errno != EINTR) return done < 0 ? -errno : done;
    }
}

}  // namespace

int64_t transfer_locally(File& file, DataOperation::Direction direction, void* memory, uint64_t length, uint64_t offset,
                         const memory::Kind& kind) {
    bool read = direction == DataOperation::Direction::read, host = kind.host_accessible();
    static thread_local std::vector<char> bounce;
    if (!host) bounce.resize(piece);
    uint64_t done = 0;
    while (done < length) {
        size_t now = static_cast<size_t>(std::min<uint64_t>(length - done, host ? SSIZE_MAX : piece));
        char* at = static_cast<char*>(memory) + done;
        if (!host && !read)
            if (Status copied = kind.copy_out(bounce.data(), at, now); !copied.ok()) return -copied.errno_value();
        ssize_t moved = move(file.local_fd(), read, host ? at : bounce.data(), now, offset + done);
        if (moved < 0) return done > 0 ? static_cast<int64_t>(done) : moved;
        if (moved == 0) break;
        if (!host && read)
            if (Status copied = kind.copy_in(at, bounce.data(), static_cast<size_t>(moved)); !copied.ok())
                return -copied.errno_value();
        done += static_cast<uint64_t>(moved);
    }
    if (file.context() != nullptr) file.context()->counters().moved(XDS_PATH_LOCAL, done);
    return static_cast<int64_t>(done);
}

}  // namespace fabric::xds::client
