#include "burstbuffer/disks/disks.h"

#include <ctime>

#include "burstbuffer/disks/disks_metrics.h"
#include "common/log.h"

namespace fabric::disks {

Result<std::unique_ptr<Disks>> Disks::open(std::span<const DiskOptions> options, io::Engine& engine,
                                           io::BufferPool& pool) {
    std::unique_ptr<Disks> disks(new Disks);
    Status first = Status::config("burst buffer: no disk is set");
    for (const DiskOptions& one : options) {
        Result<std::unique_ptr<Disk>> disk = Disk::open(one, engine, pool);
        if (disk.ok()) {
            disks->members_.push_back((*disk)->member());
            disks->disks_.push_back(std::move(disk).value());
            continue;
        }
        if (disk.status().errno_value() == EBUSY || disk.status().code() == Code::config) return disk.status();
        log::error("disk {} is left out until the next start: {}", one.folder, disk.status().message());
        metrics().retired.add(1);
        if (first.code() == Code::config) first = disk.status();
    }
    if (disks->disks_.empty()) return first;
    return disks;
}

std::vector<size_t> Disks::order(const ChunkKey& key) const {
    return placement::order(placement::stable_hash(key.encode()), members_);
}

// A disk that is not in use is asked all the same for what nobody else has.
std::optional<Disks::Found> Disks::find(const ChunkKey& key) {
    for (size_t at : order(key)) {
        Disk& disk = *disks_[at];
        // Its index may hang, too.
        if (!disk.usable() && (disk.store().hung() || !disk.store().has_dirty())) continue;
        Result<std::optional<ChunkRecord>> record = disk.store().find(key);
        if (!record.ok() || !record->has_value()) continue;
        const ChunkRecord& found = **record;
        if (found.dirty != 0 || (disk.usable() && !found.lifetime.over(std::time(nullptr)))) return Found{&disk, found};
    }
    return std::nullopt;
}

bool Disks::start(store::Read& read) {
    if (disks_.size() == 1 && disks_.front()->usable()) return disks_.front()->store().start_if_there(read);
    for (size_t at : order(*read.key)) {
        Disk& disk = *disks_[at];
        if (!disk.usable()) {
            if (!disk.store().has_dirty()) continue;
            // Its index may hang, too, so what it has is not known: an error, not a miss.
            if (disk.store().hung()) {
                disk.store().refuse(read);
                return true;
            }
            Result<std::optional<ChunkRecord>> record = disk.store().find(*read.key);
            if (!record.ok() || !record->has_value() || (*record)->dirty == 0) continue;
        }
        if (disk.store().start_if_there(read)) return true;
    }
    return false;
}

size_t Disks::put_clean(std::span<const Entry> entries, const Where& where) {
    std::vector<std::vector<Entry>> of_disk(disks_.size());
    for (const Entry& entry : entries) of_disk[home(entry.key)].push_back(entry);
    size_t taken = 0;
    for (size_t at = 0; at < disks_.size(); ++at) {
        Disk& disk = *disks_[at];
        if (of_disk[at].empty() || !disk.usable() || disk.full()) continue;
        if (disk.store().put(of_disk[at], store::LocalStore::Kind::clean, where).ok()) taken += of_disk[at].size();
    }
    metrics().refused.add(static_cast<int64_t>(entries.size() - taken));
    return taken;
}

Status Disks::put_dirty(std::span<const Entry> entries) {
    if (entries.empty()) return {};
    Status last(Code::unavailable, EIO, "burst buffer: no disk is in use");
    for (size_t at : order(entries.front().key)) {
        Disk& disk = *disks_[at];
        if (!disk.usable() || disk.full()) continue;
        Status status = disk.store().put(entries, store::LocalStore::Kind::dirty);
        if (status.ok() || status.code() == Code::invalid) return status;
        last = Status(Code::unavailable, status.errno_value(), status.message());
    }
    metrics().refused.add(static_cast<int64_t>(entries.size()));
    return last;
}

Result<Disks::HeldOn> Disks::hold(const Entry& entry) {
    Status last(Code::unavailable, EIO, "burst buffer: no disk is in use");
    for (size_t at : order(entry.key)) {
        Disk& disk = *disks_[at];
        if (!disk.usable()) continue;
        if (disk.full()) {
            last = Status(Code::unavailable, ENOSPC, "disk " + disk.folder() + " is full");
            continue;
        }
        Result<ChunkRecord> record = disk.store().hold(entry);
        if (record.ok()) return HeldOn{&disk, *record};
        last = Status(Code::unavailable, record.status().errno_value(), record.status().message());
    }
    metrics().refused.add(1);
    return last;
}

Status Disks::drop(const ChunkKey& key) {
    Status first;
    for (const auto& disk : disks_) {
        Status status = disk->store().drop(key);
        if (first.ok()) first = std::move(status);
    }
    return first;
}

Status Disks::drop_file(const fs::FileId& file) {
    Status first;
    for (const auto& disk : disks_) {
        Status status = disk->store().drop_file(file);
        if (first.ok()) first = std::move(status);
    }
    return first;
}

}  // namespace fabric::disks
