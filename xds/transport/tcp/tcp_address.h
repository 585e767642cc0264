// Addresses, listening and connecting.
#pragma once

#include <netdb.h>
#include <sys/socket.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "common/result.h"
#include "common/unique_fd.h"

namespace fabric::xds::transport {

struct HostPort {
    std::string host;  // without the brackets of an IPv6 address
    std::string port;
};
// HOST:PORT or [IPV6]:PORT, with or without tcp:// before it.
Result<HostPort> parse_address(const std::string& address);

// The addresses that a HOST:PORT has; `flags` of getaddrinfo(3) beside AI_NUMERICSERV.
using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;
Result<Addresses> resolve(const std::string& address, int flags);

// A listening socket. Port 0 takes a free one. Blocks the caller for three seconds at most while the port is taken.
Result<UniqueFd> listen_tcp(const std::string& address);
Result<int> port_of(int socket);

// Tries every address that the name has, in order, until one answers. Blocks the caller, never longer than `limit` in
// all once the name is resolved.
Result<UniqueFd> connect_tcp(const std::string& address, std::chrono::milliseconds limit);

// ADDRESS:PORT in numbers.
std::string address_text(const sockaddr* address);
// ADDRESS:PORT of the other side, or "unknown peer".
std::string peer_name(int socket);

}  // namespace fabric::xds::transport
