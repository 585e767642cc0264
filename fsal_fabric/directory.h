// Descriptors of directories, kept for the next request: one to create a file needs its directory's several times.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "common/fs/file_id.h"
#include "common/result.h"
#include "common/unique_fd.h"

namespace fabric::fsal {

struct Object;

// Shared, so nobody may move its offset: it is for names, attributes and access control lists, not for getdents.
class Directory {
  public:
    explicit Directory(UniqueFd fd) : fd_(std::make_shared<UniqueFd>(std::move(fd))) {}
    int get() const { return fd_->get(); }

  private:
    std::shared_ptr<const UniqueFd> fd_;
};

// The most recently used ones. Thread safe. A directory that was removed is as good as its handle then: ESTALE. Kept
// are only those of file systems that this kernel alone keeps (fs::Filesystem::is_local), where it shows that by its
// links.
class Directories {
  public:
    // O_RDONLY, by the object's handle or from what is kept. Errors as Object::open.
    Result<Directory> open(const Object& object);

  private:
    static constexpr size_t sets = 64;
    static constexpr size_t ways = 4;  // so 256 descriptors

    struct Kept {
        std::optional<fs::FileId> id;
        std::optional<Directory> directory;
        uint64_t used = 0;
    };
    struct Set {
        std::mutex mutex;
        std::array<Kept, ways> kept;
        uint64_t uses = 0;

        std::optional<Directory> find(const fs::FileId& id);
        // In place of what was used longest ago, or of the object's own.
        void put(const fs::FileId& id, const Directory& directory);
        void forget(const fs::FileId& id);
    };

    std::array<Set, sets> sets_;
};

// By those of the module.
Result<Directory> open_directory(const Object& object);

}  // namespace fabric::fsal
