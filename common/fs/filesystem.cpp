#include "common/fs/filesystem.h"

#include <blkid/blkid.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>

#include "common/fs/mount_info.h"

namespace fabric::fs {
namespace {

// struct fsuuid2 and FS_IOC_GETFSUUID of Linux 6.9, which the build machine's headers may not have yet.
struct KernelUuid {
    uint8_t length;
    uint8_t bytes[16];
};
constexpr unsigned long get_uuid_request = _IOR(0x15, 0, KernelUuid);

// A file_handle with room for what a FileId can hold; the kernel's own limit is 128 bytes.
struct HandleBuffer {
    alignas(struct file_handle) uint8_t bytes[sizeof(struct file_handle) + FileId::kernel_max];
    struct file_handle* get() {
        return reinterpret_cast<struct file_handle*>(bytes);
    }
    std::span<const uint8_t> data() { return {bytes + sizeof(struct file_handle), get()->handle_bytes}; }
};

constexpr std::array<std::string_view, 6> local_types{"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs"};

bool is_zero(const FilesystemUuid& uuid) {
    return std::ranges::all_of(uuid, [](uint8_t byte) { return byte == 0; });
}

bool uuid_from_kernel(int fd, FilesystemUuid& uuid) {
    KernelUuid answer{};
    if (::ioctl(fd, get_uuid_request, &answer) != 0 || answer.length != uuid.size()) return false;
    std::copy_n(answer.bytes, uuid.size(), uuid.begin());
    return !is_zero(uuid);
}

bool parse_uuid(const char* text, FilesystemUuid& uuid) {
    size_t nibbles = 0;
    for (; *text && nibbles < 32; ++text) {
        if (*text == '-') continue;
        const char* digits = "0123456789abcdef";
        const char* digit = std::strchr(digits, std::tolower(static_cast<unsigned char>(*text)));
        if (!digit) return false;
        uint8_t value = static_cast<uint8_t>(digit - digits);
        uuid[nibbles / 2] = static_cast<uint8_t>(nibbles % 2 ? uuid[nibbles / 2] | value : value << 4);
        ++nibbles;
    }
    return nibbles == 32 && !*text;
}

bool uuid_from_device(const std::string& device, FilesystemUuid& uuid) {
    std::unique_ptr<std::remove_pointer_t<blkid_probe>, void (*)(blkid_probe)> probe(
        blkid_new_probe_from_filename(device.c_str()), blkid_free_probe);
    if (!probe) return false;
    blkid_probe_enable_superblocks(probe.get(), 1);
    blkid_probe_set_superblocks_flags(probe.get(), BLKID_SUBLKS_UUID);
    const char* text = nullptr;
    return blkid_do_safeprobe(probe.get()) == 0 && blkid_probe_lookup_value(probe.get(), "UUID", &text, nullptr) == 0 &&
           parse_uuid(text, uuid);
}

// Most file systems of the kernel take the number of the device they are mounted from as f_fsid (u64_to_fsid of
// huge_encode_dev in the kernel's include/linux): that one is another after a reboot with disks in another order.
bool is_device_number(const FilesystemUuid& fsid, dev_t device) {
    uint64_t number = (minor(device) & 0xff) | (uint64_t{major(device)} << 8) | ((minor(device) & ~0xffULL) << 12);
    uint64_t value;
    std::memcpy(&value, fsid.data(), sizeof value);
    return value == number;
}

// The least size that cannot be had is found by trying, on a file without a name: no call tells it. Not beyond the
// process's own limit, which would be a signal (setrlimit(2), RLIMIT_FSIZE).
uint64_t largest_size(int directory) {
    rlimit limit{};
    ::getrlimit(RLIMIT_FSIZE, &limit);
    uint64_t most = std::min<uint64_t>(limit.rlim_cur, INT64_MAX);
    UniqueFd file(::openat(directory, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
    if (!file || ::ftruncate(file.get(), static_cast<off_t>(most)) == 0) return most;
    uint64_t possible = 0, impossible = most;
    while (impossible - possible > 1) {
        uint64_t size = possible + (impossible - possible) / 2;
        (::ftruncate(file.get(), static_cast<off_t>(size)) == 0 ? possible : impossible) = size;
    }
    return possible == 0 ? most : possible;
}

}  // namespace

Result<FilesystemPtr> Filesystem::open(UniqueFd directory, const std::string& path) {
    std::shared_ptr<Filesystem> filesystem(new Filesystem);
    filesystem->root_ = std::move(directory);
    struct stat status;
    if (::fstat(filesystem->root_.get(), &status) != 0) return Status::from_errno(errno, "stat " + path);
    filesystem->device_ = status.st_dev;
    FABRIC_RETURN_IF_ERROR(filesystem->find_mount(path));
    FABRIC_RETURN_IF_ERROR(filesystem->check_handles());
    FABRIC_RETURN_IF_ERROR(filesystem->find_uuid());
    filesystem->max_file_size_ = largest_size(filesystem->root_.get());
    return FilesystemPtr(std::move(filesystem));
}

Status Filesystem::find_mount(const std::string& path) {
    struct statx status;
    if (::statx(root_.get(), "", AT_EMPTY_PATH, STATX_MNT_ID, &status) != 0) {
        return Status::from_errno(errno, "statx " + path);
    }
    path_ = path;
    type_ = "unknown";
    for (const Mount& mount : read_mounts()) {
        if (mount.id != status.stx_mnt_id) continue;
        path_ = mount.path;
        type_ = mount.type;
        local_ = std::ranges::find(local_types, type_) != local_types.end();
        source_ = mount.source;
    }
    return {};
}

// The kernel's own word first, then the superblock on the device: both give the same bytes. Where neither is to be
// had (Lustre, CephFS: no block device), statfs's f_fsid is made from the cluster's and file system's identity. XFS
// and most others make it from the device number, which does not last.
Status Filesystem::find_uuid() {
    struct statfs status;
    if (::fstatfs(root_.get(), &status) != 0) return Status::from_errno(errno, "statfs " + path_);
    static_assert(sizeof status.f_fsid == 8);
    if (status.f_type == TMPFS_MAGIC || status.f_type == RAMFS_MAGIC) {
        return Status(Code::config, ENODEV,
                      "the file system " + path_ + " (" + type_ +
                          ") is in memory: no file and no handle of it outlives a remount, so it cannot be exported");
    }
    FilesystemUuid fsid{};
    std::memcpy(fsid.data(), &status.f_fsid, sizeof status.f_fsid);
    if (uuid_from_kernel(root_.get(), uuid_) || uuid_from_device(source_, uuid_)) {
        // Subvolumes of btrfs share a UUID and have handles that are alike; their f_fsid differs.
        if (status.f_type == BTRFS_SUPER_MAGIC) {
            for (size_t i = 0; i < fsid.size(); ++i) uuid_[i] ^= fsid[i];
        }
        return {};
    }
    if (is_zero(fsid) || is_device_number(fsid, device_)) {
        return Status(Code::config, ENODEV,
                      "the file system " + path_ + " (" + type_ +
                          ") has no UUID that lasts over a remount: its device " + source_ +
                          " cannot be read, so it cannot be exported");
    }
    uint64_t type = static_cast<uint64_t>(status.f_type);
    std::memcpy(fsid.data() + 8, &type, sizeof type);
    uuid_ = fsid;
    return {};
}

Status Filesystem::check_handles() {
    Result<FileId> id = identify(root_.get());
    if (!id.ok()) {
        return Status(Code::config, id.status().errno_value(),
                      "the file system " + path_ + " (" + type_ + ") has no usable file handles (name_to_handle_at: " +
                          std::strerror(id.status().errno_value()) + "), so it cannot be exported");
    }
    Result<UniqueFd> again = open(*id, O_PATH | O_DIRECTORY);
    if (!again.ok()) {
        int error = again.status().errno_value();
        std::string hint = error == EPERM ? "; the process needs CAP_DAC_READ_SEARCH" : "";
        return Status(Code::config, error,
                      "the file system " + path_ + " (" + type_ +
                          ") does not open files by handle (open_by_handle_at: " + std::strerror(error) + hint +
                          "), so it cannot be exported");
    }
    return {};
}

Result<FileId> Filesystem::identify(int fd) const { return identify(fd, "", AT_EMPTY_PATH); }

Result<FileId> Filesystem::identify(int directory_fd, const char* name) const {
    return identify(directory_fd, name, 0);
}

Result<FileId> Filesystem::identify(int fd, const char* name, int flags) const {
    HandleBuffer handle;
    handle.get()->handle_bytes = FileId::kernel_max;
    int mount_id;
    if (::name_to_handle_at(fd, name, handle.get(), &mount_id, flags) != 0) return Status::from_errno(errno);
    return FileId::make(uuid_, handle.get()->handle_type, handle.data());
}

Result<UniqueFd> Filesystem::open(const FileId& id, int flags) const {
    HandleBuffer handle;
    std::span<const uint8_t> kernel = id.kernel();
    handle.get()->handle_bytes = static_cast<unsigned>(kernel.size());
    handle.get()->handle_type = id.kernel_type();
    std::memcpy(handle.get()->f_handle, kernel.data(), kernel.size());
    for (;;) {
        int fd = ::open_by_handle_at(root_.get(), handle.get(), flags | O_CLOEXEC);
        if (fd >= 0) return UniqueFd(fd);
        if (errno == EINTR) continue;
        // EINVAL and ENOENT: no such handle type, or the inode is on its way out. Not the caller's fault but the
        // handle's.
        bool gone = errno == ENOENT || (errno == EINVAL && (flags & O_PATH));
        return Status::from_errno(gone ? ESTALE : errno);
    }
}

Result<FilesystemPtr> FilesystemTable::find_or_open(dev_t device, UniqueFd directory, const std::string& path) {
    if (FilesystemPtr known = find(device)) return known;
    Result<FilesystemPtr> opened = Filesystem::open(std::move(directory), path);
    if (!opened.ok()) return opened;
    FilesystemPtr filesystem = std::move(opened).value();
    std::lock_guard telling(told_mutex_);
    std::unique_lock lock(mutex_);
    if (FilesystemPtr known = by_device_[filesystem->device()].lock()) return known;
    if (FilesystemPtr twin = by_uuid_[filesystem->uuid()].lock()) {
        return Status(Code::config, EEXIST,
                      "the file systems " + twin->path() + " and " + filesystem->path() +
                          " have the same UUID (a copy or snapshot of a block device?): only the first is exported");
    }
    by_device_[filesystem->device()] = filesystem;
    by_uuid_[filesystem->uuid()] = filesystem;
    lock.unlock();
    if (told_) told_(filesystem);
    return filesystem;
}

void FilesystemTable::on_open(std::function<void(const FilesystemPtr&)> told) {
    std::lock_guard lock(told_mutex_);
    told_ = std::move(told);
}

FilesystemPtr FilesystemTable::find(dev_t device) const {
    std::shared_lock lock(mutex_);
    auto found = by_device_.find(device);
    return found == by_device_.end() ? nullptr : found->second.lock();
}

FilesystemPtr FilesystemTable::find(const FilesystemUuid& uuid) const {
    std::shared_lock lock(mutex_);
    auto found = by_uuid_.find(uuid);
    return found == by_uuid_.end() ? nullptr : found->second.lock();
}

}  // namespace fabric::fs
