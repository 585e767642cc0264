// Making what was taken durable: one sync for all who wait.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "burstbuffer/writeback/metrics.h"
#include "burstbuffer/writeback/write_back.h"
#include "common/fault.h"
#include "common/log.h"

namespace fabric::writeback {

Status WriteBack::commit(const fs::FileId& id) {
    Use file(*this, use_if_dirty(id));
    if (!file) return {};
    uint64_t upto = 0;
    {
        std::lock_guard lock(mutex_);
        if (file->unpublished != 0) upto = taken_;
    }
    FABRIC_RETURN_IF_ERROR(publish_all(upto));
    return make_name_durable(*file);
}

// One publishes for all who came before it began; who comes meanwhile waits for the next one.
Status WriteBack::publish_all(uint64_t upto) {
    Lock lock(mutex_);
    uint64_t lost = lost_;
    while (published_ < upto) {
        if (publishing_) {
            changed_.wait(lock);
            continue;
        }
        publishing_ = true;
        std::vector<Entry> batch = std::exchange(unpublished_, {});
        lock.unlock();
        Status status = publish(batch);
        if (!status.ok() && on_loss_) on_loss_(status);
        lock.lock();
        publishing_ = false;
        published_ += batch.size();
        if (status.ok()) {
            published(batch);
        } else {
            log::error("write-back: what was written could not be made durable, clients have to write it again: {}",
                       status.message());
            give_up(batch);
            ++lost_;
        }
        changed_.notify_all();
        work_.notify_all();
    }
    if (lost_ != lost) return Status(Code::io, EIO, "write-back: the disk did not make written bytes durable");
    return {};
}

// Files one behind the other, each in the order of its writes, so that draining syncs each once.
Status WriteBack::publish(std::vector<Entry>& batch) {
    std::ranges::stable_sort(batch, std::less<>(), [](const Entry& entry) { return entry.file.get(); });
    std::map<disks::Disk*, std::vector<store::LocalStore::Held>> of_disk;
    uint64_t first = 0;
    {
        std::lock_guard lock(mutex_);
        first = std::exchange(next_sequence_, next_sequence_ + batch.size());
    }
    uint64_t sequence = first;
    for (Entry& entry : batch) {
        store::LocalStore::Held held{entry.piece->key, entry.piece->record};
        held.record.dirty = sequence++;
        of_disk[entry.piece->disk].push_back(held);
    }
    if (int error = fault::hit("writeback.publish")) return Status::from_errno(error, "write-back: publishing");
    for (auto at = of_disk.begin(); at != of_disk.end(); ++at) {
        Status status = at->first->store().publish(at->second);
        if (status.ok()) continue;
        // All or nothing: what other disks have of it already must not come back at the next start.
        while (at != of_disk.begin()) unpublish(batch, *(--at));
        return status;
    }
    fault::hit("writeback.published");  // a place to be killed at
    std::lock_guard lock(mutex_);
    for (Entry& entry : batch) entry.piece->record.dirty = first++;
    metrics().syncs.add(1);
    return {};
}

void WriteBack::unpublish(std::vector<Entry>& batch, const OfDisk& of) {
    if (Status status = of.first->store().drop(of.second); !status.ok()) {
        log::error("write-back: disk {}: what was given up could not be dropped: {}", of.first->folder(),
                   status.message());
    }
    std::lock_guard lock(mutex_);
    for (Entry& entry : batch) {
        if (entry.piece->disk == of.first) entry.piece->done = true;
    }
}

void WriteBack::published(const std::vector<Entry>& batch) {
    for (const Entry& entry : batch) {
        --entry.file->unpublished;
        queues_[entry.file->queue].waiting.emplace(entry.piece->record.dirty, entry);
    }
    File* last = nullptr;
    for (const Entry& entry : batch) {
        if (entry.file.get() != last) supersede(*entry.file);
        last = entry.file.get();
    }
}

// What newer durable pieces cover altogether need not be drained.
void WriteBack::supersede(File& file) {
    if (file.unpublished != 0) return;
    Queue& queue = queues_[file.queue];
    for (const PiecePtr& piece : file.pieces) {
        if (piece->visible != 0 || piece->cut) continue;
        auto found = queue.waiting.find(piece->record.dirty);
        if (found == queue.waiting.end()) continue;
        queue.dead.push_back(found->second);
        queue.waiting.erase(found);
    }
}

// As if it had never been written; what it covered is seen again.
void WriteBack::give_up(const std::vector<Entry>& batch) {
    for (const Entry& entry : batch) {
        File& file = *entry.file;
        Piece& piece = *entry.piece;
        --file.unpublished;
        std::erase(file.pieces, entry.piece);
        queues_[file.queue].bytes -= piece.bytes_on_disk();
        bytes_ -= piece.bytes_on_disk();
        if (!piece.done) piece.disk->store().give_up(piece.record);
    }
    for (const Entry& entry : batch) {
        File& file = *entry.file;
        file.extents.clear();
        for (const PiecePtr& piece : file.pieces) {
            if (!piece->cut) file.extents.put(piece);
        }
        release_if_clean(file);
    }
    count();
}

Status WriteBack::make_name_durable(File& file) {
    {
        std::lock_guard lock(mutex_);
        if (file.named || file.pieces.empty()) return {};
    }
    Result<UniqueFd> fd = open(file, O_RDONLY);
    if (!fd.ok()) return fd.status().errno_value() == ESTALE ? Status() : fd.status();
    int error = fault::hit("writeback.name");
    if (error == 0 && fsync(fd->get()) != 0) error = errno;
    if (error != 0) return Status::from_errno(error, "fsync of a new file at the backing store");
    std::lock_guard lock(mutex_);
    file.named = true;
    return {};
}

}  // namespace fabric::writeback
