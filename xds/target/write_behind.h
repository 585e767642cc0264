// Who may hold newer bytes of the tree's files than the tree: a gateway of this node that writes back. The target knows
// it by this interface alone, and asks when files are opened (close-to-open).
#pragma once

#include "common/fs/file_id.h"
#include "common/result.h"

namespace fabric::xds::target {

// Thread safe. Calls wait: for workers' threads, and not within a call made as a user.
class WriteBehind {
  public:
    virtual ~WriteBehind() = default;
    // Whether the tree may lack bytes of any file. False: it has all that was acknowledged before the call.
    virtual Result<bool> holds_something() = 0;
    // On return the tree has all of the file that was acknowledged before the call; else why not.
    virtual Status settle(const fs::FileId& file) = 0;
};

}  // namespace fabric::xds::target
