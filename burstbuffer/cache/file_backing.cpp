#include "burstbuffer/cache/file_backing.h"

#include <fcntl.h>
#include <unistd.h>

#include "common/fault.h"

namespace fabric::cache {

namespace {

// From here on the page cache, where another copy would only take memory, is gone round.
constexpr size_t direct_from = size_t{256} << 10;
constexpr size_t block = 4096;

int64_t nanoseconds(const timespec& time) { return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec; }

Status read_all(int fd, const Backing::Fetch& fetch, size_t length) {
    size_t done = 0;
    while (done < fetch.size) {
        if (int error = fault::hit("backing.read")) return Status::from_errno(error, "reading the backing store");
        ssize_t got = pread(fd, fetch.to + done, length - done, static_cast<off_t>(fetch.offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return Status::from_errno(errno, "reading the backing store");
        if (got == 0) return Status::from_errno(ESTALE, "a file of the backing store was cut short");
        done += static_cast<size_t>(got);
    }
    return {};
}

}  // namespace

index::FileVersion version_of(const struct stat& status) {
    return {static_cast<uint64_t>(status.st_size), nanoseconds(status.st_mtim), nanoseconds(status.st_ctim)};
}

Result<index::FileVersion> version_of(int fd) {
    struct stat status {};
    if (fstat(fd, &status) != 0) return Status::from_errno(errno, "fstat");
    return version_of(status);
}

FileBacking::FileBacking(Opener opener, unsigned threads) : open_(std::move(opener)) {
    for (unsigned i = 0; i < threads; ++i) {
        threads_.emplace_back([this](const std::stop_token& stop) { run(stop); });
    }
}

FileBacking::~FileBacking() = default;

void FileBacking::start(Fetch& fetch) {
    std::lock_guard lock(mutex_);
    waiting_.push_back(&fetch);
    arrived_.notify_one();
}

void FileBacking::run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (arrived_.wait(lock, stop, [&] { return !waiting_.empty(); })) {
        Fetch& fetch = *waiting_.front();
        waiting_.pop_front();
        lock.unlock();
        fetch.status = read(fetch);
        fetch.finished(fetch);
        lock.lock();
    }
}

// The version is compared before and after: bytes of one version only, whatever is written meanwhile.
Status FileBacking::read(const Fetch& fetch) const {
    bool direct = fetch.size >= direct_from;
    Result<UniqueFd> file = open_(*fetch.file, O_RDONLY | (direct ? O_DIRECT : 0));
    if (!file.ok() && direct && file.status().errno_value() == EINVAL) {
        direct = false;
        file = open_(*fetch.file, O_RDONLY);
    }
    if (!file.ok()) return file.status();
    Result<index::FileVersion> before = version_of(file->get());
    if (!before.ok()) return before.status();
    if (*before != fetch.version) return Status::from_errno(ESTALE, "a file of the backing store has changed");
    size_t length = direct ? (fetch.size + block - 1) / block * block : fetch.size;
    FABRIC_RETURN_IF_ERROR(read_all(file->get(), fetch, length));
    Result<index::FileVersion> after = version_of(file->get());
    if (!after.ok()) return after.status();
    if (*after != fetch.version) return Status::from_errno(ESTALE, "a file of the backing store changed while read");
    return {};
}

}  // namespace fabric::cache
