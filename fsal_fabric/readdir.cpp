#include <dirent.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "common/fault.h"
#include "common/log.h"
#include "common/metrics.h"
#include "fsal_fabric/child.h"
#include "fsal_fabric/ops.h"
#include "fsal_fabric/status.h"

namespace fabric::fsal {
namespace {

metrics::Counter entries_skipped("fabric_readdir_skipped_total",
                                 "Directory entries left out of a listing because they could not be read");

// Reads a directory in pieces. A cookie is the kernel's position behind an entry (telldir(3)), which the file system
// keeps over restarts and changes of the directory.
class DirectoryReader {
  public:
    explicit DirectoryReader(UniqueFd fd) : fd_(std::move(fd)) {}

    int descriptor() const { return fd_.get(); }
    Status seek(fsal_cookie_t cookie) {
        if (::lseek(fd_.get(), static_cast<off_t>(cookie), SEEK_SET) < 0) return Status::from_errno(errno);
        return {};
    }
    // The next entry, without "." and "..", valid until the next call; null at the end.
    Result<const dirent64*> next() {
        for (;;) {
            if (at_ == filled_) {
                Status status = fill();
                if (!status.ok()) return status;
                if (filled_ == 0) return nullptr;
            }
            const auto* entry = reinterpret_cast<const dirent64*>(buffer_.data() + at_);
            at_ += entry->d_reclen;
            std::string_view name = entry->d_name;
            if (name != "." && name != "..") return entry;
        }
    }

  private:
    // MDCACHE takes a chunk of entries (Dir_Chunk, 128 by default) a call and comes back with a cookie, so a large
    // first piece would be read and thrown away over and over. Who takes more gets larger pieces.
    Status fill() {
        buffer_.resize(buffer_.empty() ? first_bytes : std::min(buffer_.size() * 4, most_bytes));
        at_ = filled_ = 0;
        long bytes = ::syscall(SYS_getdents64, fd_.get(), buffer_.data(), buffer_.size());
        if (bytes < 0) return Status::from_errno(errno);
        filled_ = static_cast<size_t>(bytes);
        return {};
    }

    static constexpr size_t first_bytes = 8 << 10;
    static constexpr size_t most_bytes = 256 << 10;

    UniqueFd fd_;
    std::vector<char> buffer_;
    size_t at_ = 0, filled_ = 0;
};

Result<Object*> entry_of(const Object& directory, int fd, const char* name, fsal_attrlist& attributes) {
    if (int error = fault::hit("backing.readdir_entry")) return Status::from_errno(error);
    return make_entry(directory, fd, name, attributes);
}

// Where names are cached, Ganesha asks for all attributes, to cache them too. A listing hardly ever needs an entry's
// access control list, which costs more than the others together, and without it Ganesha asks for it in time.
attrmask_t wanted(attrmask_t asked) {
    return op_ctx->export_perms.expire_time_attr != 0 ? asked & ~attrmask_t{ATTR_ACL} : asked;
}

// Short of descriptors or memory the whole call fails, to be repeated; anything else concerns the one entry.
bool ends_listing(const Status& status) { return to_fsal(status).major == ERR_FSAL_DELAY; }

void skip(const char* name, const Status& status) {
    if (status.errno_value() == ENOENT || status.errno_value() == ESTALE) return;  // removed meanwhile
    entries_skipped.add(1);
    log::warn("left out of a listing: {}: {}", name, std::strerror(status.errno_value()));
}

}  // namespace

fsal_status_t readdir(fsal_obj_handle* handle, fsal_cookie_t* whence, void* state, fsal_readdir_cb callback,
                      attrmask_t attributes, bool* end) {
    *end = false;
    Object& directory = from(handle);
    Result<UniqueFd> fd = directory.open(O_RDONLY | O_DIRECTORY);
    if (!fd.ok()) return to_fsal(fd.status());
    DirectoryReader reader(std::move(fd).value());
    if (whence && *whence) {
        if (Status status = reader.seek(*whence); !status.ok()) return to_fsal(status);
    }
    for (;;) {
        Result<const dirent64*> entry = reader.next();
        if (!entry.ok()) return to_fsal(entry.status());
        if (!*entry) {
            *end = true;
            return fsal_ok();
        }
        const dirent64& found = **entry;
        fsal_attrlist list;
        fsal_prepare_attrs(&list, wanted(attributes));
        Result<Object*> object = entry_of(directory, reader.descriptor(), found.d_name, list);
        if (!object.ok()) {
            fsal_release_attrs(&list);
            if (ends_listing(object.status())) return to_fsal(object.status());
            skip(found.d_name, object.status());
            continue;
        }
        fsal_dir_result result = callback(found.d_name, *object, &list, state, static_cast<fsal_cookie_t>(found.d_off));
        fsal_release_attrs(&list);
        if (result >= DIR_TERMINATE) return fsal_ok();
    }
}

}  // namespace fabric::fsal
