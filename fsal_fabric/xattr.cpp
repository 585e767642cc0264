// Extended attributes for NFSv4.2 (RFC 8276). On the wire they have no prefix; here they are the file system's "user."
// ones.
#include <sys/xattr.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "fsal_fabric/caller.h"
#include "fsal_fabric/descriptor_path.h"
#include "fsal_fabric/object.h"
#include "fsal_fabric/ops.h"

namespace fabric::fsal {
namespace {

constexpr std::string_view prefix = "user.";

fsal_status_t xattr_status(int error) {
    switch (error) {
        case ENODATA:
            return fsalstat(ERR_FSAL_NOXATTR, error);
        case ERANGE:
        case E2BIG:
            return fsalstat(ERR_FSAL_XATTR2BIG, error);
        default:
            return to_fsal_errno(error);
    }
}

// The file system's name for one from the network, which has no final zero.
Result<std::string> local_name(const xattrkey4& name) {
    std::string_view text(name.utf8string_val, name.utf8string_len);
    if (text.empty() || text.find('\0') != text.npos) return Status::from_errno(EINVAL);
    if (prefix.size() + text.size() > XATTR_NAME_MAX) return Status::from_errno(ENAMETOOLONG);
    return std::string(prefix).append(text);
}

// Opens the object and runs `call(path)`, which returns 0 or an errno, as the caller.
template <typename F>
fsal_status_t with_object(fsal_obj_handle* object, F&& call) {
    Result<UniqueFd> fd = from(object).open(O_PATH | O_NOFOLLOW);
    if (!fd.ok()) return to_fsal(fd.status());
    DescriptorPath path(fd->get());
    return run_as_caller([&] { return xattr_status(call(path.c_str(), fd->get())); });
}

template <typename F>
fsal_status_t changing(fsal_obj_handle* object, F&& call) {
    fsal_status_t status = with_object(object, call);
    if (FSAL_IS_SUCCESS(status)) from(object).note_change();
    return status;
}

// The names below "user.", without it.
std::vector<std::string_view> user_names(std::string_view list) {
    std::vector<std::string_view> names;
    while (!list.empty()) {
        size_t end = std::min(list.find('\0'), list.size());
        std::string_view name = list.substr(0, end);
        if (name.starts_with(prefix)) names.push_back(name.substr(prefix.size()));
        list.remove_prefix(std::min(end + 1, list.size()));
    }
    return names;
}

int read_names(const char* path, std::string& list) {
    for (;;) {
        ssize_t size = ::listxattr(path, nullptr, 0);
        if (size < 0) return errno;
        list.resize(static_cast<size_t>(size));
        size = ::listxattr(path, list.data(), list.size());
        if (size >= 0) {
            list.resize(static_cast<size_t>(size));
            return 0;
        }
        if (errno != ERANGE) return errno;  // a name came in between
    }
}

}  // namespace

// With room for nothing the size is the answer, else the value, or XATTR2BIG when it does not fit.
fsal_status_t getxattrs(fsal_obj_handle* object, xattrkey4* name, xattrvalue4* value) {
    Result<std::string> local = local_name(*name);
    if (!local.ok()) return to_fsal(local.status());
    return with_object(object, [&](const char* path, int) {
        ssize_t size = ::getxattr(path, local->c_str(), value->utf8string_val, value->utf8string_len);
        if (size < 0) return errno;
        value->utf8string_len = static_cast<u_int>(size);
        return 0;
    });
}

fsal_status_t setxattrs(fsal_obj_handle* object, setxattr_option4 option, xattrkey4* name, xattrvalue4* value) {
    Result<std::string> local = local_name(*name);
    if (!local.ok()) return to_fsal(local.status());
    int flags = 0;
    switch (option) {
        case SETXATTR4_EITHER:
            break;
        case SETXATTR4_CREATE:
            flags = XATTR_CREATE;
            break;
        case SETXATTR4_REPLACE:
            flags = XATTR_REPLACE;
            break;
        default:
            return to_fsal_errno(EINVAL);
    }
    return changing(object, [&](const char* path, int) {
        return ::setxattr(path, local->c_str(), value->utf8string_val, value->utf8string_len, flags) == 0 ? 0 : errno;
    });
}

fsal_status_t removexattrs(fsal_obj_handle* object, xattrkey4* name) {
    Result<std::string> local = local_name(*name);
    if (!local.ok()) return to_fsal(local.status());
    return changing(object,
                    [&](const char* path, int) { return ::removexattr(path, local->c_str()) == 0 ? 0 : errno; });
}

// The cookie counts the names that were given out. A name takes its length word and is padded to four bytes.
fsal_status_t listxattrs(fsal_obj_handle* object, count4 max_count, nfs_cookie4* cookie, bool_t* end,
                         xattrlist4* names) {
    *names = {};
    std::string list;
    fsal_status_t status = with_object(object, [&](const char* path, int fd) {
        // listxattr(2) asks for no right; the kernel's NFS server asks for that to read.
        if (::faccessat(fd, "", R_OK, AT_EACCESS | AT_EMPTY_PATH) != 0) return errno;
        return read_names(path, list);
    });
    if (FSAL_IS_ERROR(status)) return status;

    std::vector<std::string_view> found = user_names(list);
    size_t first = std::min<size_t>(*cookie, found.size());
    size_t last = first;
    for (size_t bytes = 0; last < found.size(); ++last) {
        bytes += sizeof(uint32_t) + (found[last].size() + 3) / 4 * 4;
        if (bytes > max_count) break;
    }
    if (last == first && last < found.size()) return fsalstat(ERR_FSAL_TOOSMALL, 0);
    if (last > first) {
        names->xl4_count = static_cast<u_int>(last - first);
        names->xl4_entries = static_cast<component4*>(gsh_calloc(last - first, sizeof(component4)));
    }
    for (size_t i = first; i < last; ++i) {
        component4& entry = names->xl4_entries[i - first];
        entry.utf8string_len = static_cast<u_int>(found[i].size());
        entry.utf8string_val = static_cast<char*>(gsh_memdup(found[i].data(), found[i].size()));
    }
    *cookie = last;
    *end = last == found.size();
    return fsal_ok();
}

}  // namespace fabric::fsal
