#include "fsal_fabric/data/uncommitted.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "common/fault.h"
#include "common/metrics.h"
#include "fsal_fabric/data/runtime.h"

namespace fabric::fsal {
namespace {

metrics::Gauge uncommitted_files("fabric_uncommitted_files", "Files with writes that were answered UNSTABLE");
metrics::Counter rounds("fabric_uncommitted_rounds_total",
                        "Times that all uncommitted writes were made durable because many files had some");

int sync_all(const fs::Filesystem& filesystem, const std::vector<UniqueFd>& files) {
    if (int error = fault::hit("backing.fsync")) return error;
    if (::syncfs(filesystem.root_fd()) != 0) return errno;
    if (filesystem.is_local()) return 0;
    int error = 0;  // elsewhere each file is asked
    for (const UniqueFd& file : files) {
        if (::fsync(file.get()) != 0) error = errno;
    }
    return error;
}

}  // namespace

size_t most_uncommitted() {
    static const size_t limit = [] {
        rlimit files{};
        getrlimit(RLIMIT_NOFILE, &files);
        return static_cast<size_t>(std::min<rlim_t>(files.rlim_cur, 1 << 20) / 8);
    }();
    return limit;
}

// So many make a round.
static size_t many() { return std::max<size_t>(most_uncommitted() / 2, 1); }

void UncommittedFiles::start() {
    stopping_ = false;
    thread_ = std::thread(&UncommittedFiles::run, this);
}

void UncommittedFiles::stop() {
    {
        std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    condition_.notify_all();
    if (thread_.joinable()) thread_.join();
}

// Who sees a descriptor in the object has written before a sync that has yet to take it, so that sync covers the write.
bool UncommittedFiles::note(Object& object, int fd) {
    FileData& file = object.file;
    if (file.uncommitted.load() >= 0) return true;
    UniqueFd copy(fcntl(fd, F_DUPFD_CLOEXEC, 3));
    std::lock_guard lock(mutex_);
    if (file.uncommitted.load() >= 0) return true;
    if (!copy || noted_ + settling_ >= most_uncommitted()) return false;
    file.uncommitted.store(copy.release());
    file.next_uncommitted = first_;
    file.previous_uncommitted = nullptr;
    if (first_ != nullptr) first_->previous_uncommitted = &file;
    first_ = &file;
    uncommitted_files.add(1);
    if (++noted_ >= many() && settling_ == 0) condition_.notify_all();
    return true;
}

UniqueFd UncommittedFiles::take(Object& object) {
    if (object.file.uncommitted.load() < 0) return {};
    std::lock_guard lock(mutex_);
    UniqueFd fd(object.file.uncommitted.exchange(-1));
    if (fd) unlink(object.file);
    return fd;
}

void UncommittedFiles::unlink(FileData& file) {
    (file.previous_uncommitted != nullptr ? file.previous_uncommitted->next_uncommitted : first_) =
        file.next_uncommitted;
    if (file.next_uncommitted != nullptr) file.next_uncommitted->previous_uncommitted = file.previous_uncommitted;
    --noted_;
    uncommitted_files.add(-1);
}

// The caller holds mutex_. The objects are not touched after it is given up: they may go away during the round.
std::vector<UncommittedFiles::Round> UncommittedFiles::take_all() {
    std::vector<Round> taken;
    settling_ = noted_;
    while (first_ != nullptr) {
        FileData& file = *first_;
        const fs::FilesystemPtr& lies_on = from(file.object).filesystem;
        auto round = std::ranges::find(taken, lies_on, &Round::filesystem);
        if (round == taken.end()) round = taken.insert(round, Round{lies_on, {}});
        round->files.emplace_back(file.uncommitted.exchange(-1));
        unlink(file);
    }
    return taken;
}

// The descriptors stay open until an error is known to every client by the verifier: they keep the kernel from
// forgetting it, so that a commit meanwhile meets it as well.
void UncommittedFiles::run() {
    pthread_setname_np(pthread_self(), "uncommitted");
    std::unique_lock lock(mutex_);
    for (;;) {
        condition_.wait(lock, [this] { return stopping_ || noted_ >= many(); });
        if (stopping_) return;
        std::vector<Round> taken = take_all();
        lock.unlock();
        for (const Round& round : taken) {
            if (int error = sync_all(*round.filesystem, round.files))
                change_write_verifier("sync of " + round.filesystem->path() + ": " + strerror(error));
        }
        rounds.add(1);
        taken.clear();
        lock.lock();
        settling_ = 0;
    }
}

}  // namespace fabric::fsal
