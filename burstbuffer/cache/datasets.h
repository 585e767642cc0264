// Parts of the backing store that may have only so much of the cache.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "burstbuffer/disks/disks.h"

namespace fabric::cache {

struct Dataset {
    std::string path;    // which files, as writeback::matches() has it
    uint64_t quota = 0;  // bytes on the disks, whole blocks of 4 KiB
};

// Thread safe.
class Datasets {
  public:
    // Which of them a file belongs to, by its path of now. It may wait for the backing store.
    using Find = std::function<std::optional<size_t>(const fs::FileId&)>;
    Datasets(std::vector<Dataset> all, Find find);

    const std::vector<Dataset>& all() const { return all_; }
    // What stands in records: 0: no dataset's. Looked for once, as long as the file is remembered.
    uint32_t of(const fs::FileId& file);
    uint32_t name(size_t number) const { return names_[number]; }
    uint64_t used(const disks::Disks& disks, size_t number) const;
    bool over(const disks::Disks& disks, uint32_t dataset) const;
    // Names each entry's dataset, and leaves out what is beyond a quota. While the guard lives nobody else takes of
    // what is left, so it is held until the entries are written.
    struct Admitted {
        std::unique_lock<std::mutex> guard;
        std::vector<disks::Entry> entries;
    };
    Admitted admit(const disks::Disks& disks, std::span<const disks::Entry> entries);

  private:
    std::optional<size_t> number_of(uint32_t dataset) const;

    const std::vector<Dataset> all_;
    const Find find_;
    std::vector<uint32_t> names_;
    std::mutex admitting_;
    std::mutex mutex_;
    std::unordered_map<std::string, uint32_t> remembered_;
};

}  // namespace fabric::cache
