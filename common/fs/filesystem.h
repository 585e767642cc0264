// A mounted file system whose files can be found again by FileId, and the table of those that this process uses.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "common/fs/file_id.h"
#include "common/result.h"
#include "common/unique_fd.h"

namespace fabric::fs {

// Keeps its mount busy (one descriptor of a directory in it) for as long as it lives. Thread safe: immutable.
class Filesystem {
  public:
    // The file system that `directory` (any directory descriptor but O_PATH) lies on. `path` is for messages.
    // Fails, naming path, type and reason, when its files have no handles, when the process lacks
    // CAP_DAC_READ_SEARCH, or when no lasting UUID can be found for it.
    static Result<std::shared_ptr<Filesystem>> open(UniqueFd directory, const std::string& path);

    const FilesystemUuid& uuid() const { return uuid_; }
    dev_t device() const { return device_; }
    const std::string& path() const { return path_; }
    const std::string& type() const { return type_; }
    // Whether it is one of the known file systems that this kernel alone keeps: their times come from its clock, and
    // one syncfs(2) tells of every write-back error of the whole file system since the last one (Linux 5.8).
    bool is_local() const { return local_; }
    // Block device or other source of the mount, as /proc/self/mountinfo shows it.
    const std::string& source() const { return source_; }
    int root_fd() const { return root_.get(); }

    // What a file can grow to, in bytes. The process's limit, or INT64_MAX, where it could not be found out (a
    // read-only mount, no O_TMPFILE).
    uint64_t max_file_size() const { return max_file_size_; }

    // The FileId of an open descriptor (O_PATH is enough) that lies on this file system.
    Result<FileId> identify(int fd) const;
    // The FileId of what `name` in the directory stands for: a symbolic link itself, a mounted file system's root.
    Result<FileId> identify(int directory_fd, const char* name) const;
    // open_by_handle_at(2) with the flags of open(2); O_CLOEXEC is added. ESTALE when the file is gone or the handle
    // was never valid. Interrupted calls are repeated.
    Result<UniqueFd> open(const FileId& id, int flags) const;

  private:
    Filesystem() = default;
    Status find_mount(const std::string& path);
    Status find_uuid();
    Status check_handles();
    Result<FileId> identify(int fd, const char* name, int flags) const;

    UniqueFd root_;
    dev_t device_ = 0;
    uint64_t max_file_size_ = 0;
    bool local_ = false;
    FilesystemUuid uuid_{};
    std::string path_, type_, source_;
};

using FilesystemPtr = std::shared_ptr<Filesystem>;

// All file systems in use, by device number and by UUID. An entry lives as long as somebody holds its pointer.
// Thread safe.
class FilesystemTable {
  public:
    // The file system on device `device`, known or opened now through `directory` (not O_PATH), which lies on it.
    Result<FilesystemPtr> find_or_open(dev_t device, UniqueFd directory, const std::string& path);
    FilesystemPtr find(dev_t device) const;
    FilesystemPtr find(const FilesystemUuid& uuid) const;
    // Called with each file system that is opened from now on, before find_or_open() returns it. Empty: nobody is told
    // any more, and no call is under way.
    void on_open(std::function<void(const FilesystemPtr&)> told);

  private:
    std::mutex told_mutex_;
    std::function<void(const FilesystemPtr&)> told_;
    mutable std::shared_mutex mutex_;
    std::map<dev_t, std::weak_ptr<Filesystem>> by_device_;
    std::map<FilesystemUuid, std::weak_ptr<Filesystem>> by_uuid_;
};

}  // namespace fabric::fs
