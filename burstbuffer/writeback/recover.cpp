// The start and the end: finding what an earlier process left, and what is left to the next one.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "burstbuffer/writeback/metrics.h"
#include "burstbuffer/writeback/write_back.h"
#include "common/log.h"

namespace fabric::writeback {

using index::ChunkKey;
using index::ChunkRecord;
using std::chrono::steady_clock;
using namespace std::chrono_literals;

Result<std::unique_ptr<WriteBack>> WriteBack::start(disks::Disks& disks, io::BufferPool& pool,
                                                    fs::FilesystemTable& filesystems, const Options& options,
                                                    std::function<void()> pressed,
                                                    std::function<uint64_t()> read_so_far) {
    std::unique_ptr<WriteBack> made(
        new WriteBack(disks, pool, filesystems, options, std::move(pressed), std::move(read_so_far)));
    FABRIC_RETURN_IF_ERROR(made->recover());
    for (Queue& queue : made->queues_) {
        made->threads_.emplace_back(
            [self = made.get(), &queue](const std::stop_token& stop) { self->drain(queue, stop); });
    }
    return made;
}

size_t WriteBack::queue_for(uint32_t hash) {
    for (size_t i = 0; i < queues_.size(); ++i) {
        if (queues_[i].hash == hash) return i;
    }
    queues_.emplace_back();
    queues_.back().rule = "(an earlier rule)";
    queues_.back().hash = hash;
    return queues_.size() - 1;
}

// In the order in which they were acknowledged, over all disks.
Status WriteBack::recover() {
    std::map<uint64_t, std::pair<PieceName, PiecePtr>> found;
    for (const auto& disk : disks_.all()) {
        store::LocalStore& store = disk->store();
        Status damage;
        FABRIC_RETURN_IF_ERROR(store.index().visit_dirty(0, [&](uint64_t sequence, const ChunkKey& key) {
            std::optional<PieceName> name = PieceName::of(key);
            Result<std::optional<ChunkRecord>> record = store.find(key);
            if (!record.ok() || !record->has_value()) damage = record.status();
            if (!name || !record.ok() || !record->has_value()) return true;
            auto piece = std::make_shared<Piece>(key.file, *name, name->cut ? 0 : (*record)->length);
            piece->disk = disk.get();
            piece->record = **record;
            found.emplace(sequence, std::pair(*name, piece));
            return true;
        }));
        if (!damage.ok()) {
            log::error("write-back: disk {}: records of bytes that are not drained are damaged, see fabricctl fsck: {}",
                       disk->folder(), damage.message());
        }
    }
    for (const auto& [sequence, one] : found) recovered(one.first, one.second);
    count();
    for (const auto& [name, file] : files_) {
        if (filesystems_.find(file->id.filesystem()) != nullptr) restore_size(*file);
    }
    if (!found.empty()) filesystems_.on_open([this](const fs::FilesystemPtr& opened) { restore_sizes(opened); });
    if (!found.empty()) {
        log::info("write-back: {} bytes of {} files were left to be drained", bytes_, files_.size());
    }
    return {};
}

void WriteBack::recovered(const PieceName& name, const PiecePtr& piece) {
    FilePtr& file = files_[index::key_prefix(piece->key.file)];
    if (file == nullptr) {
        file = std::make_shared<File>(piece->key.file);
        file->queue = queue_for(name.rule);
    }
    Queue& queue = queues_[file->queue];
    if (piece->cut) {
        file->extents.cut(piece->offset);
        for (const PiecePtr& one : file->pieces) one->end = std::min(one->end, std::max(one->offset, piece->offset));
    } else {
        file->extents.put(piece);
    }
    file->pieces.push_back(piece);
    queue.waiting.emplace(piece->record.dirty, Entry{file, piece});
    queue.bytes += piece->bytes_on_disk();
    bytes_ += piece->bytes_on_disk();
    next_sequence_ = std::max(next_sequence_, piece->record.dirty + 1);
    next_number_ = std::max(next_number_, name.number + 1);
}

void WriteBack::restore_sizes(const fs::FilesystemPtr& filesystem) {
    std::vector<FilePtr> files;
    {
        std::lock_guard lock(mutex_);
        for (const auto& [name, file] : files_) {
            if (file->id.filesystem() == filesystem->uuid()) files.push_back(file);
        }
    }
    for (const FilePtr& file : files) restore_size(*file);
}

// The file's growth was not synced at the backing store, only the bytes here were: a power cut can take the size that
// clients were told of. What is drained grows the file again, but until then its end would read as no bytes.
void WriteBack::restore_size(File& file) {
    Result<UniqueFd> fd = open(file, O_WRONLY);
    std::lock_guard attributes(file.attributes);
    uint64_t end = 0;
    {
        std::lock_guard lock(mutex_);
        for (const PiecePtr& piece : file.pieces) {
            if (piece->end > piece->offset) end = std::max(end, piece->end);
        }
    }
    struct stat status {};
    if (!fd.ok() || fstat(fd->get(), &status) != 0 || static_cast<uint64_t>(status.st_size) >= end) return;
    if (ftruncate(fd->get(), static_cast<off_t>(end)) != 0) {
        log::error("write-back: {}: {} bytes at the backing store instead of {}, until it is drained: {}",
                   file.id.inode(), status.st_size, end, strerror(errno));
        return;
    }
    timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, status.st_mtim};
    if (futimens(fd->get(), times) != 0) log::warn("write-back: futimens: {}", strerror(errno));
}

WriteBack::~WriteBack() {
    filesystems_.on_open({});
    uint64_t upto = 0;
    {
        std::lock_guard lock(mutex_);
        upto = taken_;
    }
    Status status = publish_all(upto);  // told to the handler
    if (options_.at_end == Options::AtEnd::drain) end_drained();
    for (std::jthread& thread : threads_) thread.request_stop();
    work_.notify_all();
    threads_.clear();
    if (bytes_ != 0) log::warn("write-back: {} bytes of {} files are left to the next start", bytes_, files_.size());
}

void WriteBack::end_drained() {
    Hurry hurry(*this);
    Lock lock(mutex_);
    std::vector<uint64_t> failures;
    for (Queue& queue : queues_) {
        failures.push_back(queue.failures);
        queue.try_now = true;
    }
    work_.notify_all();
    auto busy = [&] {
        for (size_t i = 0; i < queues_.size(); ++i) {
            bool stuck = queues_[i].trouble && queues_[i].failures != failures[i];
            if (queues_[i].bytes != 0 && !stuck) return true;
        }
        return false;
    };
    if (bytes_ != 0) log::info("write-back: {} bytes are drained before the end", bytes_);
    while (busy()) changed_.wait_for(lock, 1s);
}

WriteBack::Hurry::Hurry(WriteBack& all) : all_(all) {
    uint64_t upto = 0;
    {
        std::lock_guard lock(all_.mutex_);
        for (Queue& queue : all_.queues_) {
            ++queue.hurried;
            queue.try_now = true;
        }
        upto = all_.taken_;
    }
    Status status = all_.publish_all(upto);  // told to the handler
    all_.work_.notify_all();
}

WriteBack::Hurry::~Hurry() {
    std::lock_guard lock(all_.mutex_);
    for (Queue& queue : all_.queues_) --queue.hurried;
}

void WriteBack::wait_for_progress(std::chrono::milliseconds longest) {
    Lock lock(mutex_);
    changed_.wait_for(lock, longest);
}

// ---- What is shown

namespace {
std::chrono::seconds age_of(const Piece& piece) {
    return std::chrono::duration_cast<std::chrono::seconds>(steady_clock::now() - piece.since);
}
}  // namespace

WriteBack::FileState WriteBack::state(const fs::FileId& id) const {
    FileState state;
    if (file_count_.load() == 0) return state;
    std::lock_guard lock(mutex_);
    FilePtr file = find(id);
    if (file == nullptr) return state;
    const Queue& queue = queues_[file->queue];
    uint64_t last = 0;
    for (const PiecePtr& piece : file->pieces) {
        state.bytes += piece->end - piece->offset;
        state.age = std::max(state.age, age_of(*piece));
        last = piece->published() ? std::max(last, piece->record.dirty) : UINT64_MAX;
    }
    for (const auto& [sequence, entry] : queue.waiting) {
        if (sequence > last) break;
        state.before += entry.piece->end - entry.piece->offset;
    }
    state.rate = queue.rate;
    return state;
}

std::vector<WriteBack::QueueState> WriteBack::queues() const {
    std::vector<QueueState> all;
    std::lock_guard lock(mutex_);
    for (const Queue& queue : queues_) {
        QueueState state{.rule = queue.rule,
                         .bytes = queue.bytes,
                         .pieces = queue.waiting.size(),
                         .rate = queue.rate,
                         .failures = queue.failures,
                         .trouble = queue.trouble};
        if (!queue.waiting.empty()) state.age = age_of(*queue.waiting.begin()->second.piece);
        all.push_back(std::move(state));
    }
    return all;
}

}  // namespace fabric::writeback
