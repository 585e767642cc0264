#include "fsal_fabric/export.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>

#include "common/fs/mount_info.h"
#include "common/log.h"
#include "fsal_fabric/child.h"
#include "fsal_fabric/module.h"
#include "fsal_fabric/ops.h"
#include "fsal_fabric/status.h"
#include "fsal_fabric/wire_handle.h"

namespace fabric::fsal {
namespace {

int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1); }

Result<UniqueFd> open_directory(int at, const char* path) {
    UniqueFd fd(::openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd) return Status::from_errno(errno, std::string("open directory ") + path);
    return fd;
}

std::span<const uint8_t> bytes_of(const gsh_buffdesc& buffer) {
    return {static_cast<const uint8_t*>(buffer.addr), buffer.len};
}

}  // namespace

Status Export::open_root(const char* export_path) {
    std::unique_ptr<char, void (*)(void*)> real(::realpath(export_path, nullptr), std::free);
    if (!real) return Status::from_errno(errno, std::string("Path ") + export_path);
    path = real.get();
    Result<UniqueFd> root = open_directory(AT_FDCWD, path.c_str());
    if (!root.ok()) return root.status();
    Result<struct statx> status = stat_descriptor(root->get());
    if (!status.ok()) return status.status();
    UniqueFd root_fd = std::move(root).value();
    Result<UniqueFd> for_table = open_directory(root_fd.get(), ".");
    if (!for_table.ok()) return for_table.status();
    Result<fs::FilesystemPtr> found =
        module().filesystems.find_or_open(device_of(*status), std::move(for_table).value(), path);
    if (!found.ok()) return found.status();
    root_filesystem = *found;
    Result<fs::FileId> id = root_filesystem->identify(root_fd.get());
    if (!id.ok()) return id.status();
    tag = WireHandle::export_tag(*id);
    add(root_filesystem);
    if (options.cross_mounts) find_mounts();
    return {};
}

// Mounts that cannot be exported (proc, say) are no error: a client sees them as directories that it may not enter.
void Export::find_mounts() {
    for (const std::string& mount : fs::mounts_below(path)) {
        Result<UniqueFd> directory = open_directory(AT_FDCWD, mount.c_str());
        if (!directory.ok()) continue;
        Result<struct statx> status = stat_descriptor(directory->get());
        if (!status.ok()) continue;
        Result<fs::FilesystemPtr> found =
            module().filesystems.find_or_open(device_of(*status), std::move(directory).value(), mount);
        if (found.ok()) {
            add(*found);
        } else {
            log::info("not served under {}: {}", path, found.status().message());
        }
    }
}

void Export::add(fs::FilesystemPtr filesystem) {
    std::unique_lock lock(mutex_);
    filesystems_.emplace(filesystem->uuid(), std::move(filesystem));
}

fs::FilesystemPtr Export::find_filesystem(const fs::FilesystemUuid& uuid) {
    if (uuid == root_filesystem->uuid()) return root_filesystem;
    auto find = [&]() -> fs::FilesystemPtr {
        std::shared_lock lock(mutex_);
        auto found = filesystems_.find(uuid);
        return found == filesystems_.end() ? nullptr : found->second;
    };
    if (fs::FilesystemPtr known = find()) return known;
    if (!options.cross_mounts) return nullptr;
    // Perhaps it was mounted after us and the client had the handle from before. Anyone can send such a handle, so we
    // look once a second at most.
    std::lock_guard one(scan_mutex_);
    if (fs::FilesystemPtr known = find()) return known;
    if (now_ns() - last_scan_ns_ < 1'000'000'000) return nullptr;
    find_mounts();
    last_scan_ns_ = now_ns();
    return find();
}

uint64_t Export::max_file_size() {
    std::shared_lock lock(mutex_);
    uint64_t most = 0;
    for (const auto& [uuid, filesystem] : filesystems_) most = std::max(most, filesystem->max_file_size());
    return most;
}

Result<fs::FilesystemPtr> Export::enter_filesystem(dev_t device, int directory_fd) {
    if (!options.cross_mounts) return Status::from_errno(EXDEV);
    fs::FilesystemPtr known = module().filesystems.find(device);
    if (!known) {
        Result<UniqueFd> directory = open_directory(directory_fd, ".");
        if (!directory.ok()) return directory.status();
        Result<fs::FilesystemPtr> opened =
            module().filesystems.find_or_open(device, std::move(directory).value(), path);
        if (!opened.ok()) {
            log::info("not served under {}: {}", path, opened.status().message());
            return Status::from_errno(EXDEV);
        }
        known = *opened;
    }
    add(known);
    return known;
}

void release_export(fsal_export* handle) {
    Export* self = &from(handle);
    fsal_detach_export(self->fsal, &self->exports);
    free_export_ops(self);
    delete self;
}

fsal_status_t create_export(fsal_module* fsal, void* parse_node, config_error_type* errors,
                            const fsal_up_vector* up_vector) {
    auto self = std::make_unique<Export>();
    fsal_export_init(self.get());
    install_export_ops(self->exp_ops);
    self->up_ops = up_vector;
    self->fsal = fsal;
    self->io_budget = std::make_unique<io::Budget>(module().options.data.export_bytes_in_flight);
    Status status;
    if (!read_export_options(parse_node, self->options, *errors)) {
        // A wrong word in the file stops the start; a path that is not there does not.
        refuse_start(*errors, "the FSAL block of an export has an error (see above)");
        errors->fsal = true;
        status = Status::config("FSAL block of the export of " + std::string(CTX_FULLPATH(op_ctx)));
    } else {
        status = self->open_root(CTX_FULLPATH(op_ctx));
        if (!status.ok()) {
            config_proc_error(parse_node, errors, const_cast<char*>("export of %s is not served: %s"),
                              CTX_FULLPATH(op_ctx), status.message().c_str());
            LogCrit(COMPONENT_FSAL, "export of %s is not served: %s", CTX_FULLPATH(op_ctx), status.message().c_str());
        }
    }
    if (status.ok()) {
        if (int error = fsal_attach_export(fsal, &self->exports)) status = Status::from_errno(error);
    }
    if (!status.ok()) {
        free_export_ops(self.get());
        return to_fsal(status);
    }
    op_ctx->fsal_export = self.release();
    return fsal_ok();
}

fsal_status_t update_export(fsal_module* fsal, void* parse_node, config_error_type* errors, fsal_export* original,
                            fsal_module* updated_super) {
    fsal_status_t status = ::update_export(fsal, parse_node, errors, original, updated_super);
    if (FSAL_IS_ERROR(status)) return status;
    ExportOptions options;
    if (!read_export_options(parse_node, options, *errors)) return to_fsal_errno(EINVAL);
    if (options.cross_mounts != from(original).options.cross_mounts) {
        LogCrit(COMPONENT_FSAL, "Cross_Mounts of the export of %s can only change at a restart",
                from(original).path.c_str());
        return to_fsal_errno(EINVAL);
    }
    return fsal_ok();
}

fsal_status_t lookup_path(fsal_export* handle, const char* path, fsal_obj_handle** root, fsal_attrlist* attributes) {
    *root = nullptr;
    Export& self = from(handle);
    UniqueFd fd(::open(path, O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!fd) return to_fsal_errno(errno);
    Result<fs::FileId> id = self.root_filesystem->identify(fd.get());
    if (!id.ok()) return to_fsal(id.status());
    Result<Object*> object = make_object(self.root_filesystem, *id, fd.get(), attributes);
    if (!object.ok()) return to_fsal(object.status());
    *root = *object;
    return fsal_ok();
}

// The handle stays as it is: MDCACHE also gives create_handle what it got from handle_to_wire itself, for the parent of
// a directory, and under whichever export that is reached.
fsal_status_t wire_to_host(fsal_export* handle, fsal_digesttype_t, gsh_buffdesc* bytes, int) {
    Result<fs::FileId> id = WireHandle::read(from(handle).tag, bytes_of(*bytes));
    if (id.ok()) return fsal_ok();
    return id.status().code() == Code::invalid ? fsalstat(ERR_FSAL_BADHANDLE, 0) : to_fsal(id.status());
}

fsal_status_t host_to_key(fsal_export*, gsh_buffdesc* bytes) {
    Result<fs::FileId> id = WireHandle::parse(bytes_of(*bytes));
    if (!id.ok()) return fsalstat(ERR_FSAL_BADHANDLE, 0);
    std::ranges::copy(id->bytes(), static_cast<uint8_t*>(bytes->addr));
    bytes->len = id->bytes().size();
    return fsal_ok();
}

fsal_status_t create_handle(fsal_export* handle, gsh_buffdesc* bytes, fsal_obj_handle** object,
                            fsal_attrlist* attributes) {
    *object = nullptr;
    Result<fs::FileId> id = WireHandle::parse(bytes_of(*bytes));
    if (!id.ok()) return fsalstat(ERR_FSAL_BADHANDLE, 0);
    fs::FilesystemPtr filesystem = from(handle).find_filesystem(id->filesystem());
    if (!filesystem) return to_fsal_errno(ESTALE);
    Result<UniqueFd> fd = filesystem->open(*id, O_PATH | O_NOFOLLOW);
    if (!fd.ok()) return to_fsal(fd.status());
    Result<Object*> made = make_object(filesystem, *id, fd->get(), attributes);
    if (!made.ok()) return to_fsal(made.status());
    *object = *made;
    return fsal_ok();
}

// Clients refuse what goes beyond it when it is written, not when it is flushed.
uint64_t fs_maxfilesize(fsal_export* handle) { return from(handle).max_file_size(); }

// Asked of the object, not of the file system: a project quota shows in the answer.
fsal_status_t get_fs_dynamic_info(fsal_export*, fsal_obj_handle* object, fsal_dynamicfsinfo_t* info) {
    Result<UniqueFd> fd = from(object).open(O_PATH | O_NOFOLLOW);
    if (!fd.ok()) return to_fsal(fd.status());
    struct statvfs status;
    if (::fstatvfs(fd->get(), &status) != 0) return to_fsal_errno(errno);
    info->total_bytes = status.f_frsize * status.f_blocks;
    info->free_bytes = status.f_frsize * status.f_bfree;
    info->avail_bytes = status.f_frsize * status.f_bavail;
    info->total_files = status.f_files;
    info->free_files = status.f_ffree;
    info->avail_files = status.f_favail;
    info->time_delta = {.tv_sec = 0, .tv_nsec = 1};
    return fsal_ok();
}

}  // namespace fabric::fsal
