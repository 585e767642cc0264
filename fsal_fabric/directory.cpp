#include "fsal_fabric/directory.h"

#include <fcntl.h>

#include <algorithm>
#include <string_view>

#include "common/fs/stat.h"
#include "fsal_fabric/module.h"
#include "fsal_fabric/object.h"

namespace fabric::fsal {
namespace {

size_t hash_of(const fs::FileId& id) {
    std::span<const uint8_t> bytes = id.bytes();
    return std::hash<std::string_view>{}({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

bool is_there(const Directory& directory) {
    Result<struct stat> status = fs::stat_of(directory.get());
    return status.ok() && status->st_nlink != 0;
}

}  // namespace

std::optional<Directory> Directories::Set::find(const fs::FileId& id) {
    std::lock_guard lock(mutex);
    for (Kept& one : kept) {
        if (!one.id || !(*one.id == id)) continue;
        one.used = ++uses;
        return one.directory;
    }
    return std::nullopt;
}

void Directories::Set::put(const fs::FileId& id, const Directory& directory) {
    std::optional<Directory> replaced;  // closed when the lock is free again
    std::lock_guard lock(mutex);
    auto own = std::ranges::find_if(kept, [&](const Kept& one) { return one.id && *one.id == id; });
    Kept& place = own != kept.end() ? *own : *std::ranges::min_element(kept, {}, &Kept::used);
    replaced = std::exchange(place.directory, directory);
    place.id = id;
    place.used = ++uses;
}

void Directories::Set::forget(const fs::FileId& id) {
    std::optional<Directory> forgotten;
    std::lock_guard lock(mutex);
    for (Kept& one : kept) {
        if (!one.id || !(*one.id == id)) continue;
        forgotten = std::exchange(one.directory, std::nullopt);
        one.id.reset();
        one.used = 0;
    }
}

Result<Directory> Directories::open(const Object& object) {
    Set& set = sets_[hash_of(object.id) % sets];
    bool keeps = object.filesystem->is_local();
    if (keeps) {
        std::optional<Directory> known = set.find(object.id);
        if (known && is_there(*known)) return *known;
        if (known) set.forget(object.id);
    }
    Result<UniqueFd> fd = object.open(O_RDONLY | O_DIRECTORY);
    if (!fd.ok()) return fd.status();
    Directory opened(std::move(fd).value());
    if (keeps) set.put(object.id, opened);
    return opened;
}

Result<Directory> open_directory(const Object& object) { return module().directories.open(object); }

}  // namespace fabric::fsal
