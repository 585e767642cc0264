// What was read of objects in the request that this thread works on.
#pragma once

#include <sys/stat.h>

#include "fsal_fabric/object.h"

namespace fabric::fsal {

// Where Ganesha caches no attributes it asks for an object's several times in one request: to check access, for the
// operation, for the reply. One answer is right for all of them, unless this server changed the object meanwhile
// (Object::note_change). Kept per thread; it ends with the request.
struct RequestMemo {
    struct statx status {};
    bool has_no_acl = false;  // else it is not known

    // What is known of the object, or null; valid until the next call on this thread.
    static const RequestMemo* find(const Object& object);
    // `changes` is the object's count from before `status` was read: 0 when the Object is new.
    static void remember(const fs::FileId& id, uint64_t changes, const struct statx& status, bool has_no_acl);
};

}  // namespace fabric::fsal
