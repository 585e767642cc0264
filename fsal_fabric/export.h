// An exported directory tree and the file systems that lie in it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "common/fs/filesystem.h"
#include "common/io/budget.h"
#include "fsal_fabric/ganesha.h"
#include "fsal_fabric/options.h"

namespace fabric::fsal {

struct Export : fsal_export {
    // The file system with that UUID if it lies in this export; looks for new mounts when it is not known.
    fs::FilesystemPtr find_filesystem(const fs::FilesystemUuid& uuid);
    // The file system on `device`, of which `directory_fd` (O_PATH will do) is a directory. It becomes part of the
    // export.
    Result<fs::FilesystemPtr> enter_filesystem(dev_t device, int directory_fd);

    // What the largest file in it can grow to, in bytes.
    uint64_t max_file_size();

    ExportOptions options;
    std::string path;  // without symbolic links
    fs::FilesystemPtr root_filesystem;
    uint32_t tag = 0;  // WireHandle::export_tag
    std::unique_ptr<io::Budget> io_budget;

    // Finds the root's file system, and those mounted below. Fails, naming the path and the cause, when the root is not
    // there or its file system cannot be exported.
    Status open_root(const char* export_path);

  private:
    void find_mounts();
    void add(fs::FilesystemPtr filesystem);

    std::shared_mutex mutex_;
    std::map<fs::FilesystemUuid, fs::FilesystemPtr> filesystems_;
    std::mutex scan_mutex_;
    int64_t last_scan_ns_ = 0;
};

inline Export& from(fsal_export* handle) { return *static_cast<Export*>(handle); }

fsal_status_t create_export(fsal_module* fsal, void* parse_node, config_error_type* errors,
                            const fsal_up_vector* up_ops);
fsal_status_t update_export(fsal_module* fsal, void* parse_node, config_error_type* errors, fsal_export* original,
                            fsal_module* updated_super);

}  // namespace fabric::fsal
