#include "burstbuffer/writeback/write_back.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <latch>

#include "burstbuffer/placement/rendezvous.h"
#include "burstbuffer/store/read.h"
#include "burstbuffer/writeback/metrics.h"
#include "common/fault.h"
#include "common/log.h"

namespace fabric::writeback {

using index::ChunkKey;
using std::chrono::steady_clock;
using namespace std::chrono_literals;

namespace {

// What is in flight between disk and clients; more pieces would only take memory.
constexpr size_t most_pieces = size_t{1} << 20;

uint32_t hash_of(std::string_view rule) { return static_cast<uint32_t>(placement::stable_hash(rule)); }

// A piece of what a caller's iovec holds, in one run of memory.
class Source {
  public:
    Source(std::span<const iovec> from, io::BufferPool& pool) : from_(from), pool_(pool) {}

    Result<std::span<const char>> take(size_t skip, size_t size) {
        size_t at = 0;
        while (skip >= from_[at].iov_len) skip -= from_[at++].iov_len;
        const char* first = static_cast<const char*>(from_[at].iov_base) + skip;
        if (from_[at].iov_len - skip >= size) return std::span(first, size);
        if (buffer_ == nullptr) buffer_.reset(pool_.try_take(ChunkKey::chunk_size));
        if (buffer_ == nullptr) return Status(Code::unavailable, ENOBUFS, "write-back: no buffer");
        for (size_t done = 0; done < size; skip = 0, ++at) {
            size_t part = std::min(from_[at].iov_len - skip, size - done);
            memcpy(buffer_->data() + done, static_cast<const char*>(from_[at].iov_base) + skip, part);
            done += part;
        }
        return std::span<const char>(buffer_->data(), size);
    }

  private:
    const std::span<const iovec> from_;
    io::BufferPool& pool_;
    io::LentBuffer buffer_;
};

Status read_at(int fd, uint64_t offset, size_t size, char* to) {
    while (size > 0) {
        ssize_t got = ::pread(fd, to, size, static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return Status::from_errno(errno, "read from the backing store");
        if (got == 0) {  // truncated meanwhile: what is gone reads as zeros, as a hole does
            memset(to, 0, size);
            return {};
        }
        offset += static_cast<uint64_t>(got);
        to += got;
        size -= static_cast<size_t>(got);
    }
    return {};
}

}  // namespace

WriteBack::WriteBack(disks::Disks& disks, io::BufferPool& pool, fs::FilesystemTable& filesystems,
                     const Options& options, std::function<void()> pressed, std::function<uint64_t()> read_so_far)
    : disks_(disks),
      pool_(pool),
      filesystems_(filesystems),
      options_(options),
      pressed_(std::move(pressed)),
      read_so_far_(std::move(read_so_far)) {
    for (const std::string& path : options.paths) {
        queues_.emplace_back();
        queues_.back().rule = path;
        queues_.back().hash = hash_of(path);
    }
}

WriteBack::Use::~Use() {
    if (file_ == nullptr) return;
    std::lock_guard lock(all_.mutex_);
    --file_->users;
    all_.release_if_clean(*file_);
}

std::optional<size_t> WriteBack::rule_of(std::string_view path) const {
    for (size_t i = 0; i < options_.paths.size(); ++i) {
        if (matches(options_.paths[i], path)) return i;
    }
    return std::nullopt;
}

FilePtr WriteBack::find(const fs::FileId& file) const {
    if (files_.empty()) return nullptr;
    auto found = files_.find(index::key_prefix(file));
    return found == files_.end() ? nullptr : found->second;
}

bool WriteBack::dirty(const fs::FileId& file) const {
    if (file_count_.load() == 0) return false;
    std::lock_guard lock(mutex_);
    return find(file) != nullptr;
}

FilePtr WriteBack::use_if_dirty(const fs::FileId& file) {
    if (file_count_.load() == 0) return nullptr;
    std::lock_guard lock(mutex_);
    FilePtr found = find(file);
    if (found != nullptr) ++found->users;
    return found;
}

FilePtr WriteBack::use(const Target& target, std::optional<size_t> rule) {
    std::lock_guard lock(mutex_);
    FilePtr file = find(target.id);
    if (file == nullptr && rule) {
        file = std::make_shared<File>(target.id);
        file->queue = *rule;
        files_.emplace(index::key_prefix(target.id), file);
        count();
    }
    if (file == nullptr) return nullptr;
    if (file->filesystem == nullptr) file->filesystem = target.filesystem;
    ++file->users;
    return file;
}

void WriteBack::release_if_clean(File& file) {
    if (file.users != 0 || !file.pieces.empty()) return;
    files_.erase(index::key_prefix(file.id));
    count();
}

// What is shown, and what says at once that no file is dirty.
void WriteBack::count() {
    metrics().dirty_files.add(static_cast<int64_t>(files_.size()) - static_cast<int64_t>(file_count_.load()));
    metrics().dirty_bytes.add(static_cast<int64_t>(bytes_) - static_cast<int64_t>(bytes_shown_));
    file_count_.store(files_.size());
    bytes_shown_ = bytes_;
}

// ---- Taking

Result<size_t> WriteBack::write(const Target& target, std::optional<size_t> rule, uint64_t offset,
                                std::span<const iovec> from, size_t length) {
    Use file(*this, use(target, rule));
    if (!file) return size_t{0};
    Source source(from, pool_);
    size_t done = 0;
    while (done < length) {
        size_t size = std::min(length - done, ChunkKey::chunk_size);
        Result<std::span<const char>> bytes = source.take(done, size);
        Result<PiecePtr> piece = bytes.ok() ? take(*file, offset + done, *bytes) : bytes.status();
        if (piece.ok() && *piece == nullptr) break;
        Status status = piece.ok() ? grow_and_insert(file.pointer(), *piece, target.fd) : piece.status();
        if (!status.ok()) return done > 0 ? Result<size_t>(done) : status;
        done += size;
    }
    metrics().taken.add(static_cast<int64_t>(done));
    metrics().through.add(static_cast<int64_t>(length - done));
    return done;
}

PiecePtr WriteBack::new_piece(const File& file, PieceName name, uint64_t length) {
    std::lock_guard lock(mutex_);
    name.number = next_number_++;
    name.rule = queues_[file.queue].hash;
    return std::make_shared<Piece>(file.id, name, length);
}

// Null: the file is to be written through.
Result<PiecePtr> WriteBack::take(File& file, uint64_t offset, std::span<const char> bytes) {
    for (;;) {
        {
            Lock lock(mutex_);
            Result<bool> room = make_room(lock, file, bytes.size());
            if (!room.ok()) return room.status();
            if (!*room) return PiecePtr();
        }
        PiecePtr piece = new_piece(file, {.offset = offset}, bytes.size());
        Result<disks::Disks::HeldOn> held = disks_.hold({piece->key, bytes});
        if (held.ok()) {
            piece->disk = held->disk;
            piece->record = held->record;
            fault::hit("writeback.held");  // a place to be killed at
            return piece;
        }
        pressed_();
        Lock lock(mutex_);
        Queue& queue = queues_[file.queue];
        if (queue.bytes == 0) return PiecePtr();
        Status status = wait_for_drain(lock, queue);
        if (!status.ok() && queue.trouble && queue.trouble->local && file.pieces.empty()) return PiecePtr();
        FABRIC_RETURN_IF_ERROR(status);
    }
}

// Waits until there is room by the limits. False: write through, for nothing of the rule is in front.
Result<bool> WriteBack::make_room(Lock& lock, File& file, uint64_t bytes) {
    Queue& queue = queues_[file.queue];
    for (;;) {
        bool full = bytes_ + bytes > options_.max_dirty || taken_ - published_ + queue.waiting.size() > most_pieces;
        bool late = !queue.trouble && too_old(queue);
        if (!full && !late) return true;
        if (queue.bytes == 0) return false;
        Status status = wait_for_drain(lock, queue);
        if (!status.ok() && queue.trouble && queue.trouble->local && file.pieces.empty()) return false;
        FABRIC_RETURN_IF_ERROR(status);
    }
}

// For a while, or until it got on. With its trouble, if it cannot: tried once more first, since the cause may be gone.
Status WriteBack::wait_for_drain(Lock& lock, Queue& queue) {
    if (queue.trouble) {
        uint64_t failures = queue.failures;
        queue.try_now = true;
        work_.notify_all();
        changed_.wait_for(lock, 2s, [&] { return !queue.trouble || queue.failures != failures; });
        return queue.trouble ? queue.trouble->cause : Status();
    }
    ++queue.hurried;
    if (!unpublished_.empty()) {
        uint64_t upto = taken_;
        lock.unlock();
        Status status = publish_all(upto);  // told to the handler
        lock.lock();
    }
    work_.notify_all();
    changed_.wait_for(lock, 200ms);
    --queue.hurried;
    return {};
}

Status WriteBack::grow_and_insert(const FilePtr& file, const PiecePtr& piece, int fd) {
    std::lock_guard lock(file->attributes);
    Status status = grow(*file, fd, piece->end);
    if (status.ok()) {
        insert(file, piece);
    } else {
        piece->disk->store().give_up(piece->record);
    }
    return status;
}

// At the backing store every gateway sees the file's size, and that it changed.
Status WriteBack::grow(File& file, int fd, uint64_t end) {
    struct stat status {};
    if (fstat(fd, &status) != 0) return Status::from_errno(errno, "fstat");
    if (static_cast<uint64_t>(status.st_size) < end) {
        if (ftruncate(fd, static_cast<off_t>(end)) != 0) return Status::from_errno(errno, "ftruncate");
    } else {
        timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, {.tv_sec = 0, .tv_nsec = UTIME_NOW}};
        if (futimens(fd, times) != 0) return Status::from_errno(errno, "futimens");
    }
    if (fstat(fd, &status) != 0) return Status::from_errno(errno, "fstat");
    file.mtime = status.st_mtim;
    return {};
}

void WriteBack::insert(const FilePtr& file, const PiecePtr& piece) {
    std::lock_guard lock(mutex_);
    Queue& queue = queues_[file->queue];
    if (!piece->cut) file->extents.put(piece);
    file->pieces.push_back(piece);
    ++file->unpublished;
    unpublished_.push_back({file, piece});
    ++taken_;
    queue.bytes += piece->bytes_on_disk();
    bytes_ += piece->bytes_on_disk();
    count();
}

// ---- Reading, cutting, waiting

// Into a buffer of our own: a disk that does not answer keeps it, and its reader goes on.
Result<io::LentBuffer> WriteBack::read_piece(const Piece& piece, size_t offset, size_t size,
                                             store::Grace::Token token) {
    struct Awaited : store::Read {
        std::latch done{1};
    } read;
    io::LentBuffer buffer(pool_.try_take(size));
    if (buffer == nullptr) {
        store::Grace::leave(token);
        return Status(Code::unavailable, ENOBUFS, "write-back: no buffer for reading");
    }
    read.key = piece.key;
    read.record = piece.record;
    read.token = token;
    read.offset = offset;
    read.size = size;
    read.to = buffer->data();
    read.release = [](void* left) { io::BufferPool::give_back(static_cast<io::BufferPool::Buffer*>(left)); };
    read.released = buffer.get();
    read.finished = [](store::Read& finished) { static_cast<Awaited&>(finished).done.count_down(); };
    piece.disk->store().start(read);
    read.done.wait();
    if (read.outcome == store::Read::Outcome::hit && read.bytes == size) return buffer;
    if (read.memory_left) (void)buffer.release();
    return Status(Code::io, EIO,
                  "this node's disk: " + (read.status.ok() ? "bytes are damaged" : read.status.message()));
}

Status WriteBack::read(const fs::FileId& id, int fd, uint64_t offset, size_t size, char* to) {
    struct Held {
        Extents::Part part;
        Piece piece;  // as it is now
        store::Grace::Token token;
    };
    std::vector<Held> parts;
    {
        std::lock_guard lock(mutex_);
        if (FilePtr file = find(id)) {
            for (Extents::Part& part : file->extents.find(offset, offset + size)) {
                store::Grace::Token token = part.piece->disk->store().enter();
                Piece piece = *part.piece;
                parts.push_back({std::move(part), std::move(piece), token});
            }
        }
    }
    Status status;
    uint64_t at = offset;
    for (Held& held : parts) {
        const Extents::Part& part = held.part;
        if (status.ok()) status = read_at(fd, at, part.begin - at, to + (at - offset));
        if (status.ok()) {
            size_t length = part.end - part.begin;
            Result<io::LentBuffer> bytes = read_piece(held.piece, part.begin - held.piece.offset, length, held.token);
            status = bytes.status();
            if (bytes.ok()) memcpy(to + (part.begin - offset), (*bytes)->data(), length);
        } else {
            store::Grace::leave(held.token);
        }
        at = part.end;
    }
    if (!status.ok()) return status;
    return read_at(fd, at, offset + size - at, to + (at - offset));
}

// First at the backing store, durably, then in the log: a crash in between leaves a truncation that nobody was told of,
// and that the client asks for again. The other way round the old end would come back with a power cut.
int WriteBack::truncate(const fs::FileId& id, uint64_t size, const std::function<int()>& change) {
    Use file(*this, use_if_dirty(id));
    if (!file) return change();
    std::string mark(PieceName::cut_bytes, '\0');
    PiecePtr piece = new_piece(*file, {.offset = size, .cut = true}, 0);
    Result<disks::Disks::HeldOn> held = disks_.hold({piece->key, mark});
    if (!held.ok()) {
        Status status = flush(id);
        return status.ok() ? change() : status.errno_value();
    }
    piece->disk = held->disk;
    piece->record = held->record;
    uint64_t upto = 0;
    int not_synced = 0;
    {
        std::lock_guard shape(file->shape);
        std::lock_guard attributes(file->attributes);
        if (int error = change()) {
            piece->disk->store().give_up(piece->record);
            return error;
        }
        fault::hit("writeback.truncated");  // a place to be killed at
        if (Result<UniqueFd> fd = open(*file, O_RDONLY); fd.ok() && fsync(fd->get()) != 0) not_synced = errno;
        file->mtime.reset();
        {
            std::lock_guard lock(mutex_);
            file->extents.cut(size);
            for (const PiecePtr& one : file->pieces) one->end = std::min(one->end, std::max(one->offset, size));
        }
        insert(file.pointer(), piece);
    }
    {
        std::lock_guard lock(mutex_);
        upto = taken_;
    }
    Status status = publish_all(upto);
    return status.ok() ? not_synced : status.errno_value();
}

void WriteBack::unlinked(const fs::FileId& id) {
    Use file(*this, use_if_dirty(id));
    if (!file) return;
    file->let_go = true;
    std::lock_guard closed(file->opened);
    file->let_go = false;
}

Status WriteBack::flush(const fs::FileId& id) {
    Use file(*this, use_if_dirty(id));
    if (!file) return {};
    Hurry hurry(*this);
    Lock lock(mutex_);
    Queue& queue = queues_[file->queue];
    uint64_t failures = queue.failures, last = next_sequence_;
    for (;;) {
        bool left =
            std::ranges::any_of(file->pieces, [&](const PiecePtr& piece) { return piece->record.dirty < last; });
        if (!left) return {};
        if (queue.failures != failures && queue.trouble) return queue.trouble->cause;
        queue.try_now = true;
        work_.notify_all();
        changed_.wait_for(lock, 1s);
    }
}

std::optional<timespec> WriteBack::mtime(const fs::FileId& id) const {
    if (file_count_.load() == 0) return std::nullopt;
    FilePtr file;
    {
        std::lock_guard lock(mutex_);
        file = find(id);
    }
    if (file == nullptr) return std::nullopt;
    std::lock_guard lock(file->attributes);
    return file->mtime;
}

void WriteBack::set_mtime(const fs::FileId& id, const timespec& to) {
    Use file(*this, use_if_dirty(id));
    if (!file) return;
    std::lock_guard lock(file->attributes);
    file->mtime = to;
}

}  // namespace fabric::writeback
