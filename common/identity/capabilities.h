// Capabilities of single threads, capabilities(7).
#pragma once

#include "common/result.h"

namespace fabric::identity {

// Takes `capability` (a CAP_ constant) from the effective set of the calling thread and of those that it will start; it
// stays permitted. A call that changes credentials: not for threads that use verbs.
Status drop_capability(int capability);
// Puts a permitted one back into it. EPERM: it is not permitted.
Status raise_capability(int capability);

}  // namespace fabric::identity
