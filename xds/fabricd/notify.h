// The protocol of sd_notify(3): one datagram to the service manager.
#pragma once

#include <string>

namespace fabric::xds::fabricd {

// Does nothing when no service manager asked for it (NOTIFY_SOCKET is not set).
void notify_service_manager(const std::string& state);

}  // namespace fabric::xds::fabricd
