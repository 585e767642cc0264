#include "burstbuffer/stage/tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <memory>
#include <set>

#include "burstbuffer/cache/file_backing.h"
#include "common/unique_fd.h"

namespace fabric::stage {

namespace {

// Deeper than this there is a loop of mounts or links, or somebody wants us to run out of descriptors.
constexpr size_t deepest = 200;

class Walker {
  public:
    explicit Walker(const Walk& with) : with_(with) {}

    // `name` in the folder `at`; `path` names it to the user.
    bool visit(int at, const std::string& name, const std::string& path, bool follow, size_t depth) {
        UniqueFd node(openat(at, name.c_str(), O_PATH | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW)));
        struct stat status {};
        if (!node || fstat(node.get(), &status) != 0) return problem(path, Status::from_errno(errno, "open " + path));
        if (S_ISDIR(status.st_mode)) return folder(node.get(), status, path, depth);
        if (!S_ISREG(status.st_mode)) return true;
        Result<fs::FilesystemPtr> filesystem = filesystem_of(at, name, status.st_dev, path, follow);
        if (!filesystem.ok()) return problem(path, filesystem.status());
        Result<fs::FileId> id = (*filesystem)->identify(node.get());
        if (!id.ok()) return problem(path, id.status());
        return with_.file({path, *id, cache::version_of(status)});
    }

  private:
    bool problem(const std::string& path, const Status& why) {
        with_.problem(path, why);
        return true;
    }

    // Of a file: known, or opened by its folder.
    Result<fs::FilesystemPtr> filesystem_of(int at, const std::string& name, dev_t device, const std::string& path,
                                            bool follow) {
        if (fs::FilesystemPtr known = with_.filesystems.find(device)) {
            with_.met(known);
            return known;
        }
        UniqueFd directory;
        if (at == AT_FDCWD || follow) {
            std::unique_ptr<char, decltype(&free)> real(realpath(path.c_str(), nullptr), free);
            if (real == nullptr) return Status::from_errno(errno, "realpath " + path);
            std::string parent(real.get());
            parent.resize(std::max<size_t>(parent.rfind('/'), 1));
            directory.reset(open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        } else {
            directory.reset(openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        }
        if (!directory) return Status::from_errno(errno, "open the folder of " + name);
        return opened(device, std::move(directory), path);
    }
    Result<fs::FilesystemPtr> opened(dev_t device, UniqueFd directory, const std::string& path) {
        Result<fs::FilesystemPtr> filesystem = with_.filesystems.find_or_open(device, std::move(directory), path);
        if (filesystem.ok()) with_.met(*filesystem);
        return filesystem;
    }

    bool folder(int node, const struct stat& status, const std::string& path, size_t depth) {
        if (depth > deepest) return problem(path, Status::from_errno(ELOOP, path + ": folders too deep"));
        // A folder that a link leads to again is visited once.
        if (with_.follow && !seen_.emplace(status.st_dev, status.st_ino).second) return true;
        UniqueFd descriptor(openat(node, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (!descriptor) return problem(path, Status::from_errno(errno, "open " + path));
        UniqueFd twin(openat(node, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (!twin) return problem(path, Status::from_errno(errno, "open " + path));
        Result<fs::FilesystemPtr> filesystem = opened(status.st_dev, std::move(twin), path);
        if (!filesystem.ok()) return problem(path, filesystem.status());
        std::vector<std::string> names;
        std::unique_ptr<DIR, int (*)(DIR*)> listing(fdopendir(descriptor.get()), closedir);
        if (listing == nullptr) return problem(path, Status::from_errno(errno, "opendir " + path));
        descriptor.release();
        errno = 0;
        while (const dirent* entry = readdir(listing.get())) {
            std::string name = entry->d_name;
            if (name != "." && name != "..") names.push_back(std::move(name));
        }
        if (errno != 0) problem(path, Status::from_errno(errno, "readdir " + path));
        listing.reset();
        std::ranges::sort(names);
        std::string prefix = path.ends_with('/') ? path : path + "/";
        return std::ranges::all_of(
            names, [&](const std::string& name) { return visit(node, name, prefix + name, with_.follow, depth + 1); });
    }

    const Walk& with_;
    std::set<std::pair<dev_t, ino_t>> seen_;
};

}  // namespace

bool walk(const std::string& path, const Walk& with) { return Walker(with).visit(AT_FDCWD, path, path, true, 0); }

}  // namespace fabric::stage
