#include "burstbuffer/stage/stager.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <thread>

#include "common/fault.h"

namespace fabric::stage {

using index::ChunkKey;

namespace {

constexpr size_t block = index::Place::block_size;
constexpr auto between_reports = std::chrono::milliseconds(200);
// How long one waits for room that is being made.
constexpr auto patience = std::chrono::seconds(5);
constexpr auto settle = std::chrono::seconds(2);

size_t padded(size_t size) { return (size + block - 1) / block * block; }
uint64_t chunks_of(const TreeFile& file) {
    return (file.version.size + ChunkKey::chunk_size - 1) / ChunkKey::chunk_size;
}

// See cache::Cache::Options::settle.
void wait_until_settled(const index::FileVersion& version) {
    using std::chrono::system_clock;
    auto changed = std::chrono::nanoseconds(std::max(version.mtime, version.ctime));
    auto until = system_clock::time_point(std::chrono::duration_cast<system_clock::duration>(changed)) + settle;
    if (until - system_clock::now() < settle * 2) std::this_thread::sleep_until(until);
}

Status read_exactly(int fd, char* to, size_t size, uint64_t offset) {
    while (size > 0) {
        if (int error = fault::hit("backing.read")) return Status::from_errno(error, "read");
        ssize_t got = pread(fd, to, size, static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return Status::from_errno(errno, "read");
        if (got == 0) return Status::from_errno(ESTALE, "it was cut short while it was read");
        to += got;
        size -= static_cast<size_t>(got);
        offset += static_cast<uint64_t>(got);
    }
    return {};
}

Status check_version(int fd, const TreeFile& file) {
    Result<index::FileVersion> now = cache::version_of(fd);
    if (!now.ok()) return now.status();
    return *now == file.version ? Status() : Status::from_errno(ESTALE, "it changed while it was staged");
}

}  // namespace

Result<StageResult> Stager::run(const StageOptions& options, const std::function<bool(const Progress&)>& tell) {
    if (!scan(options, tell)) cancelled_ = true;
    result_.progress.scanning = false;
    if (!cancelled_) FABRIC_RETURN_IF_ERROR(check_room());
    std::condition_variable over;
    unsigned running = cancelled_ ? 0 : std::max(options.workers, 1U);
    std::vector<std::jthread> workers;
    for (unsigned i = 0; i < (cancelled_ ? 0 : std::max(options.workers, 1U)); ++i) {
        workers.emplace_back([&] {
            load(options);
            std::lock_guard lock(mutex_);
            --running;
            over.notify_one();
        });
    }
    std::unique_lock lock(mutex_);
    while (!over.wait_for(lock, between_reports, [&] { return running == 0; })) {
        Progress now = result_.progress;
        lock.unlock();
        if (!tell(now)) cancelled_ = true;
        lock.lock();
    }
    lock.unlock();
    workers.clear();
    result_.cancelled = cancelled_;
    result_.complete = !result_.cancelled && result_.progress.failed_files == 0;
    return result_;
}

bool Stager::scan(const StageOptions& options, const std::function<bool(const Progress&)>& tell) {
    auto next_report = std::chrono::steady_clock::now() + between_reports;
    Walk walk_with{
        .filesystems = filesystems_,
        .met =
            [&](const fs::FilesystemPtr& filesystem) {
                if (std::ranges::find(in_use_, filesystem) == in_use_.end()) in_use_.push_back(filesystem);
            },
        .follow = options.follow,
        .file =
            [&](TreeFile&& file) {
                ++result_.progress.files;
                result_.progress.bytes += file.version.size;
                files_.push_back(std::move(file));
                if (std::chrono::steady_clock::now() < next_report) return true;
                next_report += between_reports;
                return tell(result_.progress);
            },
        .problem = [&](const std::string& path, const Status& why) { failed(path, why.message()); },
    };
    return std::ranges::all_of(options.paths, [&](const std::string& path) { return walk(path, walk_with); });
}

// Of what is held already nothing more is needed.
Status Stager::check_room() const {
    uint64_t needed = 0;
    for (const TreeFile& file : files_) {
        uint64_t held = cache_.held(file.id, file.version).chunks;
        if (held == chunks_of(file)) continue;
        needed += padded(file.version.size) - std::min<uint64_t>(held * ChunkKey::chunk_size, file.version.size);
    }
    FABRIC_RETURN_IF_ERROR(check_quotas());
    uint64_t room = needed == 0 ? 0 : cache_.room();
    if (needed <= room) return {};
    return {Code::unavailable, ENOSPC,
            fmt::format("it does not fit: {} bytes are to be loaded, {} can be had (what is pinned or not yet drained "
                        "stays); nothing was loaded",
                        needed, room)};
}

Status Stager::check_quotas() const {
    cache::Datasets* datasets = cache_.datasets();
    if (datasets == nullptr) return {};
    std::map<uint32_t, uint64_t> needed;
    for (const TreeFile& file : files_) {
        uint64_t held = cache_.held(file.id, file.version).chunks;
        if (held == chunks_of(file)) continue;
        needed[datasets->of(file.id)] +=
            padded(file.version.size) - std::min<uint64_t>(held * ChunkKey::chunk_size, file.version.size);
    }
    for (size_t i = 0; i < datasets->all().size(); ++i) {
        const cache::Dataset& one = datasets->all()[i];
        uint64_t used = datasets->used(cache_.disks(), i), more = needed[datasets->name(i)];
        if (more == 0 || used + more <= one.quota) continue;
        return {Code::unavailable, EDQUOT,
                fmt::format("it does not fit: dataset {} has {} of its quota of {} bytes in use, and {} are to be "
                            "loaded; nothing was loaded: raise the quota or evict something of it",
                            one.path, used, one.quota, more)};
    }
    return {};
}

void Stager::load(const StageOptions& options) {
    io::LentBuffer buffer(pool_.try_take(batch_bytes));
    while (buffer == nullptr && !cancelled_) {
        std::this_thread::sleep_for(between_reports);
        buffer.reset(pool_.try_take(batch_bytes));
    }
    size_t first = 0, last = 0;
    while (!cancelled_ && take_batch(first, last)) {
        if (files_[first].version.size <= ChunkKey::chunk_size) {
            load_small(first, last, options, buffer->data());
            continue;
        }
        const TreeFile& file = files_[first];
        bool held = is_held(file, options.lifetime);
        Status status = held ? Status() : load_large(file, options, buffer->data());
        if (status.ok()) {
            done(file, held);
        } else if (!cancelled_) {
            failed(file.path, status.message());
        }
    }
}

// Neighbours in the listing, so that they lie beside each other on disk; a large file alone.
bool Stager::take_batch(size_t& first, size_t& last) {
    std::lock_guard lock(mutex_);
    first = last = next_;
    size_t bytes = 0;
    while (last < files_.size()) {
        uint64_t size = files_[last].version.size;
        if (last > first && (size > ChunkKey::chunk_size || bytes + padded(size) > batch_bytes)) break;
        bytes += padded(size);
        ++last;
        if (size > ChunkKey::chunk_size) break;
    }
    next_ = last;
    return last > first;
}

bool Stager::is_held(const TreeFile& file, const index::Lifetime& lifetime) {
    cache::Cache::Held held = cache_.held(file.id, file.version);
    if (held.chunks != chunks_of(file)) return false;
    if (lifetime == index::Lifetime() || held.chunks == 0) return true;
    Result<uint64_t> changed = cache_.set_lifetime(file.id, lifetime);
    return changed.ok() && *changed >= held.chunks;
}

Result<UniqueFd> Stager::open(const TreeFile& file) const {
    for (const fs::FilesystemPtr& filesystem : in_use_) {
        if (filesystem->uuid() == file.id.filesystem()) return filesystem->open(file.id, O_RDONLY);
    }
    return Status::from_errno(ESTALE, "its file system is not in use");
}

void Stager::load_small(size_t first, size_t last, const StageOptions& options, char* buffer) {
    std::vector<disks::Entry> entries;
    std::vector<const TreeFile*> loaded;
    size_t used = 0;
    for (size_t i = first; i < last && !cancelled_; ++i) {
        const TreeFile& file = files_[i];
        if (is_held(file, options.lifetime)) {
            done(file, true);
            continue;
        }
        wait_until_settled(file.version);
        Result<UniqueFd> opened = open(file);
        Status status = opened.ok() ? check_version(opened->get(), file) : opened.status();
        if (status.ok()) status = read_exactly(opened->get(), buffer + used, file.version.size, 0);
        if (status.ok()) status = check_version(opened->get(), file);
        if (!status.ok()) {
            failed(file.path, status.message());
            continue;
        }
        entries.push_back({{file.id, file.version, 0}, {buffer + used, file.version.size}});
        loaded.push_back(&file);
        used += padded(file.version.size);
    }
    Status status = put(entries, options.lifetime);
    for (const TreeFile* file : loaded) {
        // Some of them may have been taken.
        if (status.ok() || is_held(*file, options.lifetime)) {
            done(*file, false);
        } else if (!cancelled_) {
            failed(file->path, status.message());
        }
    }
}

Status Stager::load_large(const TreeFile& file, const StageOptions& options, char* buffer) {
    wait_until_settled(file.version);
    Result<UniqueFd> opened = open(file);
    if (!opened.ok()) return opened.status();
    FABRIC_RETURN_IF_ERROR(check_version(opened->get(), file));
    constexpr size_t at_once = batch_bytes / ChunkKey::chunk_size;
    for (uint64_t number = 0; number < chunks_of(file); number += at_once) {
        if (cancelled_) return {Code::unavailable, ECANCELED, "cancelled"};
        uint64_t offset = number * ChunkKey::chunk_size;
        size_t size = std::min<uint64_t>(batch_bytes, file.version.size - offset);
        FABRIC_RETURN_IF_ERROR(read_exactly(opened->get(), buffer, size, offset));
        // Before each is taken, so that no chunk of another version is.
        FABRIC_RETURN_IF_ERROR(check_version(opened->get(), file));
        std::vector<disks::Entry> entries;
        for (size_t at = 0; at < size; at += ChunkKey::chunk_size) {
            entries.push_back({{file.id, file.version, static_cast<uint32_t>((offset + at) / ChunkKey::chunk_size)},
                               {buffer + at, std::min(ChunkKey::chunk_size, size - at)}});
        }
        FABRIC_RETURN_IF_ERROR(put(entries, options.lifetime));
    }
    return {};
}

// Room may be in the making.
Status Stager::put(std::span<const disks::Entry> entries, const index::Lifetime& lifetime) {
    std::vector<disks::Entry> left(entries.begin(), entries.end());
    auto until = std::chrono::steady_clock::now() + patience;
    while (!left.empty()) {
        if (cache_.take(left, lifetime) == left.size()) return {};
        std::erase_if(left, [&](const disks::Entry& entry) { return cache_.disks().find(entry.key).has_value(); });
        if (left.empty()) return {};
        if (cancelled_) return {Code::unavailable, ECANCELED, "cancelled"};
        if (std::chrono::steady_clock::now() > until) {
            return {Code::unavailable, ENOSPC, "its disk took no more: it is full, or it fails"};
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return {};
}

void Stager::done(const TreeFile& file, bool before) {
    std::lock_guard lock(mutex_);
    ++result_.progress.done_files;
    result_.progress.done_bytes += file.version.size;
    if (!before) return;
    ++result_.progress.held_files;
    result_.progress.held_bytes += file.version.size;
}

void Stager::failed(const std::string& path, const std::string& cause) {
    std::lock_guard lock(mutex_);
    ++result_.progress.failed_files;
    if (result_.failures.size() < most_failures) result_.failures.push_back({path, cause});
}

}  // namespace fabric::stage
