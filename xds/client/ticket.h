// Who this process is, as the node's agent vouches for it.
#pragma once

#include <string>

#include "xds/security/hmac.h"

namespace fabric::xds::client {

struct OwnTicket {
    std::string bytes;  // empty: none
    security::Key secret{};
    security::Id cluster{};
};

}  // namespace fabric::xds::client
