#include "xds/target/tree.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace fabric::xds::target {
namespace {

int posix_flags(uint32_t flags) {
    bool read = flags & wire::open_flags::read, write = flags & wire::open_flags::write;
    int result = write ? (read ? O_RDWR : O_WRONLY) : O_RDONLY;
    if (flags & wire::open_flags::create) result |= O_CREAT;
    if (flags & wire::open_flags::exclusive) result |= O_EXCL;
    if (flags & wire::open_flags::truncate) result |= O_TRUNC;
    return result;
}

int64_t nanoseconds(const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

// The alignment that direct I/O on this file wants; 0: it has none. statx(2), STATX_DIOALIGN.
uint32_t direct_alignment(int fd) {
    constexpr uint32_t safe = 4096;
    struct statx status {};
#ifdef STATX_DIOALIGN
    if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 && (status.stx_mask & STATX_DIOALIGN) != 0) {
        if (status.stx_dio_offset_align == 0) return 0;
        return std::max({status.stx_dio_mem_align, status.stx_dio_offset_align, safe});
    }
#endif
    return safe;
}

}  // namespace

wire::Attributes attributes_of(const struct stat& status) {
    wire::Attributes result;
    result.size = static_cast<uint64_t>(status.st_size);
    result.inode = status.st_ino;
    result.mtime_ns = nanoseconds(status.st_mtim);
    result.ctime_ns = nanoseconds(status.st_ctim);
    result.mode = status.st_mode;
    result.uid = status.st_uid;
    result.gid = status.st_gid;
    result.links = static_cast<uint32_t>(status.st_nlink);
    return result;
}

wire::FileId on_wire(const fs::FileId& id) {
    wire::FileId result;
    fs::FilesystemUuid uuid = id.filesystem();
    std::memcpy(result.file_system.data(), uuid.data(), uuid.size());
    result.handle_type = id.kernel_type();
    result.handle = {reinterpret_cast<const char*>(id.kernel().data()), id.kernel().size()};
    return result;
}

Result<std::unique_ptr<Tree>> Tree::open(const Config& config, WriteBehind* behind) {
    std::unique_ptr<Tree> tree(new Tree);
    tree->behind_ = behind;
    tree->path_ = config.root;
    tree->direct_ = config.direct;
    tree->root_ = UniqueFd(::open(config.root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    UniqueFd directory(::open(config.root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!tree->root_ || !directory) return Status::from_errno(errno, "export root " + config.root);
    Result<fs::FilesystemPtr> filesystem = fs::Filesystem::open(std::move(directory), config.root);
    if (!filesystem.ok()) return filesystem.status();
    tree->filesystem_ = std::move(filesystem).value();
    Result<std::unique_ptr<identity::Pool>> identities = identity::Pool::start(std::max(1U, config.workers));
    if (!identities.ok()) return identities.status();
    tree->identities_ = std::move(identities).value();
    return tree;
}

// O_NONBLOCK: opening a pipe must not wait for its other end. Absolute links and links that lead out fail with EXDEV.
Result<UniqueFd> Tree::resolve(std::string_view path, int flags, uint32_t mode) const {
    std::string beneath(path);
    beneath.erase(0, std::min(beneath.find_first_not_of('/'), beneath.size()));
    if (beneath.find('\0') != std::string::npos) return Status(Code::invalid, EINVAL, "path with a zero byte");
    if (beneath.empty()) beneath = ".";
    open_how how{};
    how.flags = static_cast<uint64_t>(flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (flags & O_PATH) how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
    how.mode = flags & O_CREAT ? mode & 07777 : 0;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
    for (int attempt = 0;; ++attempt) {
        auto fd = static_cast<int>(::syscall(SYS_openat2, root_.get(), beneath.c_str(), &how, sizeof how));
        if (fd >= 0) return UniqueFd(fd);
        // EAGAIN: somebody renamed or mounted on the way, so the kernel could not prove that `..` stays beneath.
        if (errno == EINTR || (errno == EAGAIN && attempt < 100)) continue;
        return Status::from_errno(errno, "open " + path_ + "/" + beneath);
    }
}

Status Tree::settle(int fd) {
    struct stat status;
    if (behind_ == nullptr) return {};
    if (::fstat(fd, &status) != 0) return Status::from_errno(errno, "fstat");
    if (status.st_dev != filesystem_->device()) return {};  // nor is it the gateway's
    Result<fs::FileId> id = filesystem_->identify(fd);
    return id.ok() ? behind_->settle(*id) : id.status();
}

Status Tree::settle_batch(const User& user, std::span<const std::string_view> paths) {
    Result<bool> something = behind_->holds_something();
    if (!something.ok() || !*something) return something.status();
    std::vector<UniqueFd> files;
    Result<bool> ran = identities_->run_as(user.credentials(), [&] {
        for (std::string_view path : paths)
            if (Result<UniqueFd> file = resolve(path, O_PATH, 0); file.ok()) files.push_back(std::move(*file));
        return true;
    });
    Status status = ran.status();
    for (const UniqueFd& file : files)
        if (status.ok()) status = settle(file.get());
    return status;
}

Result<Opened> Tree::finish(UniqueFd fd, uint32_t flags) {
    struct stat status;
    if (::fstat(fd.get(), &status) != 0) return Status::from_errno(errno, "fstat");
    Opened opened;
    opened.attributes = attributes_of(status);
    if (status.st_dev == filesystem_->device())
        if (Result<fs::FileId> id = filesystem_->identify(fd.get()); id.ok()) opened.id = *id;
    opened.file = std::make_shared<OpenFile>();
    opened.file->fd = std::move(fd);
    opened.file->flags = flags;
    opened.file->id = opened.id;
    return opened;
}

Result<Opened> Tree::open_path(const User& user, std::string_view path, uint32_t flags, uint32_t mode) {
    int wanted = posix_flags(flags);
    // What is to be drained comes before it is cut off.
    bool truncates_later = behind_ != nullptr && (wanted & O_TRUNC) != 0;
    if (truncates_later) wanted &= ~O_TRUNC;
    Result<Result<UniqueFd>> outcome = identities_->run_as(user.credentials(), [&]() -> Result<UniqueFd> {
        Result<UniqueFd> file = resolve(path, wanted, mode);
        if (!file.ok()) return file.status();
        struct stat status;
        if (::fstat(file->get(), &status) != 0) return Status::from_errno(errno, "fstat");
        if (S_ISDIR(status.st_mode)) return Status::from_errno(EISDIR, "open " + std::string(path));
        if (!S_ISREG(status.st_mode))
            return Status(Code::invalid, EINVAL, "open " + std::string(path) + ": not a regular file");
        return file;
    });
    if (!outcome.ok()) return outcome.status();
    if (!outcome->ok()) return outcome->status();
    FABRIC_RETURN_IF_ERROR(settle((**outcome).get()));
    if (truncates_later && ::ftruncate((**outcome).get(), 0) != 0)
        return Status::from_errno(errno, "truncate " + std::string(path));
    Result<Opened> opened = finish(std::move(**outcome), flags);
    if (!opened.ok()) return opened;
    OpenFile& file = *opened->file;
    file.alignment = direct_ == Direct::never ? 0 : direct_alignment(file.fd.get());
    // A second description of the very file that the user was let into, whatever its path leads to by now.
    if (file.alignment != 0)
        file.direct_fd = UniqueFd(::open(("/proc/self/fd/" + std::to_string(file.fd.get())).c_str(),
                                         (wanted & O_ACCMODE) | O_DIRECT | O_CLOEXEC));
    return opened;
}

Result<Opened> Tree::open_id(const wire::FileId& id, uint32_t flags, const security::Capability& grant) {
    fs::FilesystemUuid uuid;
    std::memcpy(uuid.data(), id.file_system.data(), uuid.size());
    if (uuid != filesystem_->uuid()) return Status::from_errno(ESTALE, "a file of another file system");
    Result<fs::FileId> known =
        fs::FileId::make(uuid, id.handle_type, {reinterpret_cast<const uint8_t*>(id.handle.data()), id.handle.size()});
    if (!known.ok()) return known.status();
    int wanted = posix_flags(flags & (wire::open_flags::read | wire::open_flags::write));
    Result<UniqueFd> fd = filesystem_->open(*known, wanted | O_NONBLOCK);
    if (!fd.ok()) return fd.status();
    FABRIC_RETURN_IF_ERROR(settle(fd->get()));
    Result<Opened> opened = finish(std::move(*fd), flags);
    if (!opened.ok()) return opened;
    OpenFile& file = *opened->file;
    file.grant = grant;
    file.grant.file = {};
    file.alignment = direct_ == Direct::never ? 0 : direct_alignment(file.fd.get());
    if (file.alignment != 0)
        if (Result<UniqueFd> direct = filesystem_->open(*known, wanted | O_DIRECT); direct.ok())
            file.direct_fd = std::move(*direct);
    return opened;
}

Result<Opened> Tree::stat_path(const User& user, std::string_view path) {
    Result<Result<UniqueFd>> outcome =
        identities_->run_as(user.credentials(), [&] { return resolve(path, O_PATH, 0); });
    if (!outcome.ok()) return outcome.status();
    if (!outcome->ok()) return outcome->status();
    return finish(std::move(**outcome), 0);
}

Result<Opened> Tree::stat_file(const OpenFile& file) {
    UniqueFd copy(::fcntl(file.fd.get(), F_DUPFD_CLOEXEC, 0));
    if (!copy) return Status::from_errno(errno, "dup of an open file");
    return finish(std::move(copy), file.flags);
}

Result<UniqueFd> Tree::open_for_batch(std::string_view path, struct stat& status) {
    Result<UniqueFd> file = resolve(path, O_RDONLY, 0);
    if (!file.ok()) return file;
    if (::fstat(file->get(), &status) != 0) return Status::from_errno(errno, "fstat");
    if (S_ISDIR(status.st_mode)) return Status::from_errno(EISDIR, path);
    if (!S_ISREG(status.st_mode)) return Status(Code::invalid, EINVAL, "not a regular file");
    return file;
}

}  // namespace fabric::xds::target
