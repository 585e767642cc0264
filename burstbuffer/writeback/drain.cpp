// Draining: one thread a rule brings its pieces to the backing store, in the order in which they became durable.
//
// A run is a row of pieces of one file. It is written in place, since the file has its name and its clients have its
// handle already, and synced before the first byte of the next run: so no file is ever there before one that was
// acknowledged earlier. Then the pieces' records are dropped, durably, before anybody may write the file through.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "burstbuffer/writeback/metrics.h"
#include "burstbuffer/writeback/write_back.h"
#include "common/fault.h"
#include "common/identity/capabilities.h"
#include "common/log.h"

namespace fabric::writeback {

using index::ChunkKey;
using std::chrono::steady_clock;
using namespace std::chrono_literals;

namespace {

// Written before its room on the disks is given back.
constexpr uint64_t longest_run = uint64_t{64} << 20;
// Clients that have read so lately are at it.
constexpr auto active_for = 200ms;

std::string name_of(const fs::FileId& file, int fd) {
    char path[4096];
    ssize_t length = fd < 0 ? -1 : readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), path, sizeof path);
    if (length > 1) return {path, static_cast<size_t>(length)};
    return fmt::format("inode {}", file.inode());
}

const char* advice(const Status& cause, bool local) {
    if (local) return "write the file again or remove it: its bytes were on this node's disk only";
    switch (cause.errno_value()) {
        case ENOSPC:
            return "make room at the backing store; nothing is lost";
        case EDQUOT:
            return "raise the owner's quota or make room within it; nothing is lost";
        case ENODEV:
            return "mount and export the file system; nothing is lost";
        case EROFS:
            return "mount the backing store for writing; nothing is lost";
        default:
            return "look after the backing store; nothing is lost";
    }
}

Status write_at(int fd, uint64_t offset, const char* from, size_t size) {
    while (size > 0) {
        if (int error = fault::hit("drain.write")) return Status::from_errno(error, "write");
        ssize_t moved = ::pwrite(fd, from, size, static_cast<off_t>(offset));
        if (moved < 0 && errno == EINTR) continue;
        if (moved <= 0) return Status::from_errno(moved < 0 ? errno : EIO, "write");
        from += moved;
        offset += static_cast<uint64_t>(moved);
        size -= static_cast<size_t>(moved);
    }
    return {};
}

}  // namespace

void WriteBack::drain(Queue& queue, const std::stop_token& stop) {
    pthread_setname_np(pthread_self(), "drain");
    // Set-id bits that a file got after it was written stay when its bytes arrive. Where it is not permitted, they go.
    (void)identity::raise_capability(CAP_FSETID);
    auto retry = options_.first_retry;
    Lock lock(mutex_);
    while (!stop.stop_requested()) {
        work_.wait_for(lock, stop, 1s, [&] { return !queue.waiting.empty() || !queue.dead.empty(); });
        if (stop.stop_requested()) return;
        if (!unpublished_.empty() && steady_clock::now() - unpublished_.front().piece->since > options_.settle) {
            uint64_t upto = taken_;
            lock.unlock();
            Status status = publish_all(upto);  // told to the handler
            lock.lock();
        }
        drain_next(queue, lock, stop);
        if (!queue.trouble) {
            retry = options_.first_retry;
            continue;
        }
        work_.wait_for(lock, stop, retry, [&] { return queue.try_now; });
        retry = std::min(retry * 2, options_.longest_retry);
    }
}

void WriteBack::drain_next(Queue& queue, Lock& lock, const std::stop_token& stop) {
    queue.try_now = false;
    Run run = next_run(queue);
    auto since = steady_clock::now();
    if (run.file != nullptr) {
        lock.unlock();
        Status status = drain_run(queue, run, stop);
        lock.lock();
        if (stop.stop_requested() && !status.ok()) return;
        if (status.errno_value() == EINTR) {  // again, when the file is free
            work_.wait_for(lock, stop, 5ms, [] { return false; });
            return;
        }
        finish(queue, run, status);
        std::chrono::duration<double> took = steady_clock::now() - since;
        if (status.ok()) queue.rate = static_cast<double>(run.bytes) / std::max(took.count(), 1e-6);
    }
    if (!queue.dead.empty()) {
        lock.unlock();
        drop_dead(queue);
        lock.lock();
    }
    changed_.notify_all();
}

WriteBack::Run WriteBack::next_run(const Queue& queue) {
    Run run;
    for (const auto& [sequence, entry] : queue.waiting) {
        if (run.file != nullptr && (entry.file != run.file || run.bytes >= longest_run)) break;
        run.file = entry.file;
        run.pieces.push_back(entry.piece);
        run.bytes += entry.piece->end - entry.piece->offset;
    }
    return run;
}

Result<UniqueFd> WriteBack::open(File& file, int flags) {
    fs::FilesystemPtr filesystem;
    {
        std::lock_guard lock(mutex_);
        if (file.filesystem == nullptr) file.filesystem = filesystems_.find(file.id.filesystem());
        filesystem = file.filesystem;
    }
    if (filesystem == nullptr) return Status::from_errno(ENODEV, "its file system is not in use here");
    return filesystem->open(file.id, flags | O_NOFOLLOW | O_CLOEXEC);
}

Status WriteBack::drain_run(Queue& queue, const Run& run, const std::stop_token& stop) {
    if (int error = fault::hit("drain.open")) return Status::from_errno(error, "open");
    if (run.file->let_go) return Status::from_errno(EINTR, "another wants the file closed");
    std::lock_guard opened(run.file->opened);
    Result<UniqueFd> fd = open(*run.file, O_WRONLY);
    if (!fd.ok()) return fd.status();
    auto since = steady_clock::now();
    uint64_t done = 0;
    Status status;
    for (const PiecePtr& piece : run.pieces) {
        if (stop.stop_requested() || run.file->let_go) return Status::from_errno(EINTR, "not now");
        auto begun = steady_clock::now();
        if (!piece->cut) status = drain_piece(*run.file, *piece, fd->get());
        if (!status.ok()) break;
        if (others_read(queue)) {
            // What it took the disk, not the page cache.
            ::sync_file_range(fd->get(), static_cast<off_t>(piece->offset), piece->record.length,
                              SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
            yield(queue, steady_clock::now() - begun, stop);
        }
        done += piece->record.length;
        keep_pace(queue, since, done, stop);
    }
    {
        std::lock_guard lock(run.file->attributes);
        if (run.file->mtime) {
            timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, *run.file->mtime};
            if (futimens(fd->get(), times) != 0 && status.ok()) status = Status::from_errno(errno, "futimens");
        }
    }
    int error = status.ok() ? fault::hit("drain.fsync") : 0;
    if (status.ok() && error == 0 && fsync(fd->get()) != 0) error = errno;
    if (error != 0) status = Status::from_errno(error, "fsync");
    fault::hit("drain.synced");  // a place to be killed at
    if (status.ok()) return status;
    // Only an open tells that the file is gone.
    int told = status.errno_value() == ESTALE ? EIO : status.errno_value();
    return {status.code(), told, name_of(run.file->id, fd->get()) + ": " + status.message()};
}

Status WriteBack::drain_piece(File& file, const Piece& piece, int fd) {
    size_t whole = piece.record.length;
    int error = fault::hit("drain.read");
    if (error != 0) return {Code::corrupt, error, "this node's disk"};
    Result<io::LentBuffer> bytes = read_piece(piece, 0, whole, piece.disk->store().enter());
    if (bytes.status().code() == Code::unavailable) return bytes.status();
    if (!bytes.ok()) return {Code::corrupt, bytes.status().errno_value(), bytes.status().message()};
    std::lock_guard shape(file.shape);
    {
        std::lock_guard lock(file.attributes);
        struct stat status {};
        if (fstat(fd, &status) != 0) return Status::from_errno(errno, "fstat");
        if (!file.mtime) file.mtime = status.st_mtim;
    }
    uint64_t end = 0;
    {
        std::lock_guard lock(mutex_);
        end = piece.end;
    }
    if (end == piece.offset) return {};
    FABRIC_RETURN_IF_ERROR(write_at(fd, piece.offset, (*bytes)->data(), end - piece.offset));
    // Its way to the disk begins now, so that the sync at the end of the run has less to wait for.
    ::sync_file_range(fd, static_cast<off_t>(piece.offset), static_cast<off_t>(end - piece.offset),
                      SYNC_FILE_RANGE_WRITE);
    metrics().drained.add(static_cast<int64_t>(end - piece.offset));
    return {};
}

bool WriteBack::too_old(const Queue& queue) const {
    return !queue.waiting.empty() &&
           steady_clock::now() - queue.waiting.begin()->second.piece->since > options_.max_age;
}

bool WriteBack::others_read(Queue& queue) const {
    if (!read_so_far_ || options_.share >= 1) return false;
    auto now = steady_clock::now();
    uint64_t read = read_so_far_();
    if (read != queue.seen_read) queue.read_at = now;
    queue.seen_read = read;
    return now - queue.read_at < active_for;
}

// So long that what it took was the drain's share.
void WriteBack::yield(Queue& queue, steady_clock::duration took, const std::stop_token& stop) {
    auto until = steady_clock::now() +
                 std::min<steady_clock::duration>(
                     std::chrono::duration_cast<steady_clock::duration>(took * (1 / options_.share - 1)), 1s);
    Lock lock(mutex_);
    if (bytes_ > options_.max_dirty / 4 * 3 || too_old(queue)) return;
    work_.wait_until(lock, stop, until, [&] { return queue.hurried != 0; });
}

void WriteBack::keep_pace(Queue& queue, steady_clock::time_point since, uint64_t bytes, const std::stop_token& stop) {
    if (options_.drain_rate == 0) return;
    std::chrono::duration<double> allowed(static_cast<double>(bytes) / static_cast<double>(options_.drain_rate));
    auto until = since + std::chrono::duration_cast<steady_clock::duration>(allowed);
    Lock lock(mutex_);
    while (steady_clock::now() < until && queue.hurried == 0 && !too_old(queue) && !stop.stop_requested()) {
        work_.wait_until(lock, stop, std::min(until, steady_clock::now() + 1s), [&] { return queue.hurried != 0; });
    }
}

// Under the mutex. From here on the pieces' bytes are read from the backing store.
void WriteBack::finish(Queue& queue, const Run& run, const Status& status) {
    if (!status.ok()) {
        if (status.errno_value() == ESTALE) return forget_file(queue, run.file);
        return fail(queue, status);
    }
    if (queue.trouble) log::info("write-back: {}: drained again after {} tries", queue.rule, queue.trouble->tries);
    queue.trouble.reset();
    for (const PiecePtr& piece : run.pieces) {
        auto found = queue.waiting.find(piece->record.dirty);
        if (found == queue.waiting.end()) continue;  // superseded meanwhile
        run.file->extents.remove(*piece);
        queue.dead.push_back(found->second);
        queue.waiting.erase(found);
    }
}

void WriteBack::fail(Queue& queue, const Status& status) {
    unsigned tries = queue.trouble ? queue.trouble->tries + 1 : 1;
    bool local = status.code() == Code::corrupt;
    queue.trouble = Trouble{status, local, tries};
    ++queue.failures;
    metrics().failures.add(1);
    // A start finds its file systems a moment later.
    bool first = tries == (status.errno_value() == ENODEV ? 10 : 1);
    if (!first && tries % 60 != 0) return;
    log::error("write-back: {}: not drained, and nothing after it: {} (tried {} times): {}", queue.rule,
               status.message(), tries, advice(status, local));
}

// Nobody can name the file any more, nor has it open.
void WriteBack::forget_file(Queue& queue, const FilePtr& file) {
    queue.trouble.reset();
    for (auto at = queue.waiting.begin(); at != queue.waiting.end();) {
        if (at->second.file != file) {
            ++at;
            continue;
        }
        file->extents.remove(*at->second.piece);
        queue.dead.push_back(at->second);
        at = queue.waiting.erase(at);
    }
}

// The records go before the pieces are forgotten: while a file has any, nobody writes it through, and so a record that
// a crash brings back never meets newer bytes.
void WriteBack::drop_dead(Queue& queue) {
    std::vector<Entry> dead;
    {
        std::lock_guard lock(mutex_);
        dead = std::exchange(queue.dead, {});
    }
    std::map<disks::Disk*, std::vector<store::LocalStore::Held>> of_disk;
    for (const Entry& entry : dead) of_disk[entry.piece->disk].push_back({entry.piece->key, entry.piece->record});
    Status status;
    if (int error = fault::hit("drain.drop")) status = Status::from_errno(error, "dropping drained records");
    for (const auto& [disk, held] : of_disk) {
        if (status.ok()) status = disk->store().drop(held);
        if (status.ok()) disk->has_room();
    }
    fault::hit("drain.dropped");  // a place to be killed at
    std::lock_guard lock(mutex_);
    if (!status.ok()) {
        queue.dead.insert(queue.dead.end(), dead.begin(), dead.end());
        return fail(queue, {Code::corrupt, status.errno_value(), status.message()});
    }
    std::ranges::stable_sort(dead, std::less<>(), [](const Entry& entry) { return entry.file.get(); });
    for (size_t i = 0; i < dead.size(); ++i) {
        uint64_t bytes = dead[i].piece->bytes_on_disk();
        queue.bytes -= bytes;
        bytes_ -= bytes;
        dead[i].piece->done = true;
        bool last = i + 1 == dead.size() || dead[i + 1].file != dead[i].file;
        if (!last) continue;
        File& file = *dead[i].file;
        std::erase_if(file.pieces, [](const PiecePtr& piece) { return piece->done; });
        release_if_clean(file);
    }
    if (queue.waiting.empty()) queue.trouble.reset();
    count();
}

}  // namespace fabric::writeback
