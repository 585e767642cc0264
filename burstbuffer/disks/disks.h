// A node's disks as one store: each chunk has its disk, by weight; one that fails or is full is gone round.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "burstbuffer/disks/disk.h"
#include "burstbuffer/store/read.h"
#include "common/result.h"

namespace fabric::disks {

using store::ChunkKey;
using store::ChunkRecord;
using Entry = store::LocalStore::Entry;

// Thread safe. The engine and the pool outlive it.
class Disks {
  public:
    // A disk that cannot be opened is logged and left out; with none left it is an error: the first one's. A folder
    // that another process owns, or that is no store's, is an error always, since the settings are wrong then.
    static Result<std::unique_ptr<Disks>> open(std::span<const DiskOptions> options, io::Engine& engine,
                                               io::BufferPool& pool);

    // False: no disk has it that may be asked; finished() is not called. A chunk is looked for on its own disk first,
    // then on the others in its order, since weights and disks change.
    bool start(store::Read& read);

    // Each entry goes to its disk; those for one disk lie there behind each other, in the order given. What a full or
    // failing disk did not take is no error: the caller counts on nothing. The number of entries taken.
    using Where = store::LocalStore::Where;
    size_t put_clean(std::span<const Entry> entries, const Where& where = {});
    // The place in all() of the disk that put_clean() would take.
    size_t home(const ChunkKey& key) const { return disks_.size() == 1 ? 0 : order(key).front(); }
    // All on one disk, the first of the first key's order that takes them; durable on return. ENOSPC or EIO
    // (Code::unavailable): none did.
    Status put_dirty(std::span<const Entry> entries);

    // LocalStore::hold() on the first disk of the key's order that takes it. ENOSPC or EIO (Code::unavailable): none
    // did.
    struct HeldOn {
        Disk* disk = nullptr;
        ChunkRecord record;
    };
    Result<HeldOn> hold(const Entry& entry);

    // On all disks; the first error, after all were tried.
    Status drop(const ChunkKey& key);
    Status drop_file(const fs::FileId& file);

    struct Found {
        Disk* disk = nullptr;
        ChunkRecord record;
    };
    // Where start() would find it.
    std::optional<Found> find(const ChunkKey& key);

    std::span<const std::unique_ptr<Disk>> all() const { return disks_; }

  private:
    Disks() = default;
    std::vector<size_t> order(const ChunkKey& key) const;

    std::vector<std::unique_ptr<Disk>> disks_;
    std::vector<placement::Member> members_;
};

}  // namespace fabric::disks
