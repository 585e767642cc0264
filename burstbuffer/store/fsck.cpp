#include "burstbuffer/store/fsck.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "burstbuffer/index/index.h"
#include "burstbuffer/store/format.h"
#include "burstbuffer/store/segments.h"
#include "common/crc32c.h"
#include "common/unique_fd.h"

namespace fabric::store {

namespace {

using index::ChunkKey;
using index::ChunkRecord;
using index::Index;

std::string hex(std::string_view bytes) {
    std::string text;
    for (char byte : bytes) text += fmt::format("{:02x}", static_cast<uint8_t>(byte));
    return text;
}

std::string name_of(const ChunkKey& key) {
    std::span<const uint8_t> id = key.file.bytes();
    return fmt::format("chunk {} of file {}", key.number, hex({reinterpret_cast<const char*>(id.data()), id.size()}));
}

class Check {
  public:
    Check(const FsckOptions& options, const Format& format, Index& index,
          const std::function<void(const Finding&)>& tell)
        : options_(options), format_(format), index_(index), tell_(tell), buffer_(nullptr, free) {}

    Result<FsckReport> run() {
        FABRIC_RETURN_IF_ERROR(visit_chunks());
        find_overlaps();
        FABRIC_RETURN_IF_ERROR(drop_bad());
        FABRIC_RETURN_IF_ERROR(compare_derived());
        return report_;
    }

  private:
    struct Extent {
        Place place;
        uint32_t blocks;
        bool dirty;
    };

    void found(std::string what, bool repaired) {
        ++report_.found;
        if (repaired) ++report_.repaired;
        tell_({std::move(what), repaired});
    }

    Status visit_chunks() {
        std::set<std::string> dirty_keys;
        FABRIC_RETURN_IF_ERROR(index_.visit_dirty(0, [&](uint64_t, const ChunkKey& key) {
            dirty_keys.insert(key.encode());
            return true;
        }));
        std::vector<std::string> erased;
        FABRIC_RETURN_IF_ERROR(index_.visit_chunks(
            {},
            [&](const ChunkKey& key, const ChunkRecord& record) {
                look_at(key, record);
                return true;
            },
            [&](std::string_view, std::string_view key, const Status& why) {
                bool dirty = dirty_keys.contains(std::string(key));
                found(fmt::format("index: the entry {} is damaged: {}{}", hex(key), why.message(),
                                  dirty ? "; it is of data that the backing store does not have" : ""),
                      options_.repair && !dirty);
                if (!dirty) erased.emplace_back(key);
            }));
        if (!options_.repair) return {};
        for (const std::string& key : erased) FABRIC_RETURN_IF_ERROR(index_.erase_raw("chunks", key));
        return {};
    }

    void look_at(const ChunkKey& key, const ChunkRecord& record) {
        ++report_.records;
        report_.bytes += record.length;
        if (record.dirty != 0) ++report_.dirty;
        std::string wrong = what_is_wrong(record);
        if (wrong.empty()) {
            extents_.push_back({record.place, record.blocks(), record.dirty != 0});
            keep(key, record);
        } else {
            bad(key, record, wrong);
        }
    }

    void keep(const ChunkKey& key, const ChunkRecord& record) {
        use_[record.place.segment] += record.use();
        if (record.dirty != 0) dirty_.emplace(record.dirty, key.encode());
    }

    void bad(const ChunkKey& key, const ChunkRecord& record, const std::string& why) {
        bool clean = record.dirty == 0;
        found(fmt::format("{}: {}{}", name_of(key), why, clean ? "" : "; the backing store does not have this data"),
              clean && options_.repair);
        if (clean) {
            bad_.emplace_back(key, record);
        } else {
            keep(key, record);
        }
    }

    std::string what_is_wrong(const ChunkRecord& record) {
        uint64_t end = record.place.offset() + uint64_t{record.blocks()} * Place::block_size;
        if (end > format_.segment_size) return fmt::format("ends at byte {} of a segment", end);
        int file = segment(record.place.segment);
        if (file < 0) return fmt::format("segment {} is not there", record.place.segment);
        struct stat status {};
        if (fstat(file, &status) != 0 || static_cast<uint64_t>(status.st_size) < end) {
            return fmt::format("segment {} is too short", record.place.segment);
        }
        return options_.data ? compare_data(file, record) : "";
    }

    std::string compare_data(int file, const ChunkRecord& record) {
        if (buffer_ == nullptr) {
            buffer_.reset(static_cast<char*>(aligned_alloc(Place::block_size, ChunkKey::chunk_size)));
            if (buffer_ == nullptr) return "no memory to read it";
        }
        ssize_t size = record.blocks() * Place::block_size;
        ssize_t got = pread(file, buffer_.get(), static_cast<size_t>(size), static_cast<off_t>(record.place.offset()));
        if (got != size)
            return fmt::format("reading segment {}: {}", record.place.segment, got < 0 ? strerror(errno) : "cut short");
        for (size_t i = 0, at = 0; at < record.length; ++i, at += ChunkRecord::checksum_unit) {
            size_t bytes = std::min<size_t>(ChunkRecord::checksum_unit, record.length - at);
            if (crc32c(buffer_.get() + at, bytes) != record.checksums[i]) {
                return fmt::format("segment {}: the bytes from {} on do not match their checksum", record.place.segment,
                                   record.place.offset() + at);
            }
        }
        return "";
    }

    // -1: not there.
    int segment(uint32_t number) {
        auto [at, added] = files_.try_emplace(number);
        if (added) {
            std::string path = fmt::format("{}/segments/{:08}.seg", options_.folder, number);
            at->second.reset(::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
        }
        return at->second.get();
    }

    // Two records in one place cannot both be right; which one is, the checksums tell, with `data`.
    void find_overlaps() {
        std::ranges::sort(extents_, {}, &Extent::place);
        for (size_t i = 1; i < extents_.size(); ++i) {
            const Extent& before = extents_[i - 1];
            const Extent& after = extents_[i];
            if (before.place.segment != after.place.segment || before.place.block + before.blocks <= after.place.block)
                continue;
            found(fmt::format("segment {}: the records at blocks {} and {} overlap", after.place.segment,
                              before.place.block, after.place.block),
                  false);
        }
    }

    Status drop_bad() {
        if (!options_.repair) return {};
        for (const auto& [key, record] : bad_) {
            Index::Change change;
            change.remove(key, record);
            FABRIC_RETURN_IF_ERROR(index_.apply(change, false));
        }
        return {};
    }

    // By place, use of segments, and dirty order, against what the chunks say.
    Status compare_derived() {
        uint64_t wrong = 0;
        auto damaged = [&](std::string_view, std::string_view, const Status&) { ++wrong; };
        uint64_t residents = 0;
        FABRIC_RETURN_IF_ERROR(index_.visit_residents(
            {},
            [&](const Index::Resident& resident) {
                ++residents;
                Result<std::optional<ChunkRecord>> record = index_.find(resident.key);
                bool right = record.ok() && record->has_value() && (*record)->place == resident.place &&
                             (*record)->blocks() == resident.blocks;
                if (!right) ++wrong;
                return true;
            },
            damaged));
        uint64_t records = report_.records - (options_.repair ? bad_.size() : 0);
        if (residents < records) wrong += records - residents;
        std::map<uint64_t, std::string> dirty;
        FABRIC_RETURN_IF_ERROR(index_.visit_dirty(
            0,
            [&](uint64_t sequence, const ChunkKey& key) {
                dirty.emplace(sequence, key.encode());
                return true;
            },
            damaged));
        if (dirty != dirty_) ++wrong;
        wrong += wrong_uses();
        if (wrong == 0) return {};
        found(fmt::format("index: {} entries by place, by segment or in dirty order do not fit the chunks", wrong),
              options_.repair);
        return options_.repair ? index_.derive_again() : Status();
    }

    uint64_t wrong_uses() {
        Result<std::map<uint32_t, SegmentUse>> counted = index_.segments();
        if (!counted.ok()) return 1;
        std::erase_if(*counted, [](const auto& entry) { return entry.second == SegmentUse{}; });
        if (!options_.repair) {
            for (const auto& [key, record] : bad_) use_[record.place.segment] += record.use();
        }
        return *counted == use_ ? 0 : 1;
    }

    const FsckOptions& options_;
    const Format& format_;
    Index& index_;
    const std::function<void(const Finding&)>& tell_;
    FsckReport report_;
    std::vector<Extent> extents_;
    std::vector<std::pair<ChunkKey, ChunkRecord>> bad_;
    std::map<uint32_t, SegmentUse> use_;  // of the records that stay
    std::map<uint64_t, std::string> dirty_;
    std::map<uint32_t, UniqueFd> files_;
    std::unique_ptr<char, void (*)(void*)> buffer_;
};

}  // namespace

Result<FsckReport> fsck(const FsckOptions& options, const std::function<void(const Finding&)>& tell) {
    if (access((options.folder + "/FORMAT").c_str(), F_OK) != 0) {
        return Status::from_errno(errno, options.folder + " is no store: its FORMAT file");
    }
    Result<UniqueFd> lock = lock_folder(options.folder);
    if (!lock.ok()) return lock.status();
    Result<Format> format = open_format(options.folder, 0);
    if (!format.ok()) return format.status();
    Result<std::unique_ptr<Index>> index = Index::open(options.folder + "/index", {});
    if (!index.ok()) return index.status();
    return Check(options, *format, **index, tell).run();
}

}  // namespace fabric::store
