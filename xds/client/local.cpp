#include "xds/client/local.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

namespace fabric::xds::client {
namespace {

constexpr size_t piece = 1 << 20;

// Host memory that data of accelerators goes through, one a thread: pinned for the kind that uses it first.
class Bounce {
  public:
    Bounce() = default;
    Bounce(const Bounce&) = delete;
    Bounce& operator=(const Bounce&) = delete;
    ~Bounce() {
        if (pinned_for_ != nullptr) pinned_for_->unpin(data_);
        if (data_ != nullptr) munmap(data_, piece);
    }
    // Null: no memory.
    char* take(const memory::Kind& kind, const void* near) {
        if (data_ != nullptr) return data_;
        void* mapped = mmap(nullptr, piece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapped == MAP_FAILED) return nullptr;
        data_ = static_cast<char*>(mapped);
        if (kind.pin(data_, piece, near).ok()) pinned_for_ = &kind;
        return data_;
    }

  private:
    char* data_ = nullptr;
    const memory::Kind* pinned_for_ = nullptr;
};

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
    static thread_local Bounce bounces;
    char* bounce = host ? nullptr : bounces.take(kind, memory);
    if (!host && bounce == nullptr) return -ENOMEM;
    uint64_t done = 0;
    while (done < length) {
        size_t now = static_cast<size_t>(std::min<uint64_t>(length - done, host ? SSIZE_MAX : piece));
        char* at = static_cast<char*>(memory) + done;
        if (!host && !read)
            if (Status copied = kind.copy_out(bounce, at, now); !copied.ok()) return -copied.errno_value();
        ssize_t moved = move(file.local_fd(), read, host ? at : bounce, now, offset + done);
        if (moved < 0) return done > 0 ? static_cast<int64_t>(done) : moved;
        if (moved == 0) break;
        if (!host && read)
            if (Status copied = kind.copy_in(at, bounce, static_cast<size_t>(moved)); !copied.ok())
                return -copied.errno_value();
        done += static_cast<uint64_t>(moved);
    }
    if (file.context() != nullptr) file.context()->counters().moved(XDS_PATH_LOCAL, done);
    return static_cast<int64_t>(done);
}

}  // namespace fabric::xds::client
