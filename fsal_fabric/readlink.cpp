#include <unistd.h>

#include <climits>

#include "fsal_fabric/object.h"
#include "fsal_fabric/ops.h"
#include "fsal_fabric/status.h"

namespace fabric::fsal {

// Ganesha frees the text with gsh_free and counts its final zero.
fsal_status_t readlink(fsal_obj_handle* object, gsh_buffdesc* target, bool) {
    if (object->type != SYMBOLIC_LINK) return to_fsal_errno(EINVAL);
    Result<UniqueFd> fd = from(object).open(O_PATH | O_NOFOLLOW);
    if (!fd.ok()) return to_fsal(fd.status());
    char text[PATH_MAX];
    ssize_t length = ::readlinkat(fd->get(), "", text, sizeof text);
    if (length < 0) return to_fsal_errno(errno);
    if (length == static_cast<ssize_t>(sizeof text)) return to_fsal_errno(ENAMETOOLONG);
    text[length] = '\0';
    target->len = static_cast<size_t>(length) + 1;
    target->addr = gsh_memdup(text, target->len);
    return fsal_ok();
}

}  // namespace fabric::fsal
