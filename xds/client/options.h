// A context's settings: what the caller gives, else the environment, else the default.
#pragma once

#include "common/result.h"
#include "xds/client/context.h"
#include "xds/client/include/xds.h"

namespace fabric::xds::client {

// `given`, or the variable's value if that is null; empty where neither is set.
const char* from_environment(const char* given, const char* name);

// `given` may be null. An error names the option or the variable.
Result<Settings> settings_from(const xds_options* given);

}  // namespace fabric::xds::client
