#include "xds/transport/tcp/tcp_address.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <thread>

namespace fabric::xds::transport {
namespace {

// The kernel lets go of the sockets of a killed process's io_uring a little after the process is gone, and nothing
// tells when: a target that is started again at once tries for so long.
constexpr std::chrono::seconds patience{3};
constexpr std::chrono::milliseconds pause{10};

std::string numeric(const sockaddr* address, socklen_t length) {
    char host[NI_MAXHOST], port[NI_MAXSERV];
    if (getnameinfo(address, length, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return "unknown peer";
    return address->sa_family == AF_INET6 ? "[" + std::string(host) + "]:" + port : std::string(host) + ":" + port;
}

// 0 or the errno.
int await_connection(int socket, std::chrono::steady_clock::time_point deadline) {
    for (;;) {
        auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
        if (left <= 0) return ETIMEDOUT;
        pollfd ready{socket, POLLOUT, 0};
        int count = ::poll(&ready, 1, static_cast<int>(left));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return count == 0 ? ETIMEDOUT : errno;
        int error = 0;
        socklen_t size = sizeof error;
        getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
        return error;
    }
}

}  // namespace

Result<HostPort> parse_address(const std::string& address) {
    std::string text = address.starts_with("tcp://") ? address.substr(6) : address;
    size_t colon = text.rfind(':');
    auto bad = [&] { return Status::invalid("address '" + address + "': expected HOST:PORT or [IPV6]:PORT"); };
    if (colon == std::string::npos) return bad();
    HostPort parsed{text.substr(0, colon), text.substr(colon + 1)};
    if (parsed.port.empty() || parsed.port.size() > 5 ||
        !std::all_of(parsed.port.begin(), parsed.port.end(), ::isdigit) || std::stoi(parsed.port) > 65535)
        return bad();
    if (parsed.host.starts_with('[') && parsed.host.ends_with(']'))
        parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
    else if (parsed.host.find(':') != std::string::npos)
        return bad();
    return parsed;
}

Result<Addresses> resolve(const std::string& address, int flags) {
    Result<HostPort> parsed = parse_address(address);
    if (!parsed.ok()) return parsed.status();
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = flags | AI_NUMERICSERV;
    addrinfo* list = nullptr;
    int error = getaddrinfo(parsed->host.empty() ? nullptr : parsed->host.c_str(), parsed->port.c_str(), &hints, &list);
    if (error != 0)
        return Status(Code::io, error == EAI_SYSTEM ? errno : ENOENT,
                      "address " + address + ": " + gai_strerror(error));
    return Addresses(list, &freeaddrinfo);
}

static Result<UniqueFd> try_to_listen(const addrinfo* addresses, const std::string& name) {
    int error = 0;
    for (const addrinfo* one = addresses; one != nullptr; one = one->ai_next) {
        UniqueFd socket(::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
        int yes = 1;
        if (socket && setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
            ::bind(socket.get(), one->ai_addr, one->ai_addrlen) == 0 && ::listen(socket.get(), 512) == 0)
            return socket;
        error = errno;
    }
    return Status::from_errno(error, "listen on " + name);
}

Result<UniqueFd> listen_tcp(const std::string& address) {
    Result<Addresses> addresses = resolve(address, AI_PASSIVE);
    if (!addresses.ok()) return addresses.status();
    auto end = std::chrono::steady_clock::now() + patience;
    for (;;) {
        Result<UniqueFd> socket = try_to_listen(addresses->get(), address);
        bool taken = !socket.ok() && socket.status().errno_value() == EADDRINUSE;
        if (!taken || std::chrono::steady_clock::now() >= end) return socket;
        std::this_thread::sleep_for(pause);
    }
}

Result<int> port_of(int socket) {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0)
        return Status::from_errno(errno, "getsockname");
    std::string name = numeric(reinterpret_cast<sockaddr*>(&address), length);
    return std::stoi(name.substr(name.rfind(':') + 1));
}

Result<UniqueFd> connect_tcp(const std::string& address, std::chrono::milliseconds limit) {
    Result<Addresses> addresses = resolve(address, 0);
    if (!addresses.ok()) return addresses.status();
    auto deadline = std::chrono::steady_clock::now() + limit;
    int error = ECONNREFUSED;
    for (const addrinfo* one = addresses->get(); one != nullptr; one = one->ai_next) {
        UniqueFd socket(::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (!socket) {
            error = errno;
            continue;
        }
        error = ::connect(socket.get(), one->ai_addr, one->ai_addrlen) == 0 ? 0 : errno;
        if (error == EINPROGRESS) error = await_connection(socket.get(), deadline);
        if (error == 0) return socket;
    }
    return Status::from_errno(error, "connect to " + address);
}

std::string address_text(const sockaddr* address) {
    return numeric(address, address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
}

std::string peer_name(int socket) {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    if (getpeername(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0) return "unknown peer";
    if (address.ss_family == AF_UNIX) return "unix socket";
    return numeric(reinterpret_cast<sockaddr*>(&address), length);
}

}  // namespace fabric::xds::transport
