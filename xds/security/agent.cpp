#include "xds/security/agent.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>
#include <ctime>

#include "common/log.h"

namespace fabric::xds::security {
namespace {

// The answer: an errno (u32, 0: none), then secret, cluster, and the ticket to the end of the stream.
constexpr size_t answer_head = 4 + sizeof(Key) + sizeof(Id);

Result<sockaddr_un> socket_address(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof address.sun_path)
        return Status::invalid("agent socket '" + path + "': the path must have 1 to 107 bytes");
    std::memcpy(address.sun_path, path.data(), path.size());
    return address;
}

Result<Ticket> ticket_for_peer(int socket) {
    ucred peer{};
    socklen_t length = sizeof peer;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
        return Status::from_errno(errno, "SO_PEERCRED");
    Ticket ticket;
    ticket.uid = peer.uid;
    ticket.gid = peer.gid;
    ticket.groups.resize(65536);
    length = static_cast<socklen_t>(ticket.groups.size() * sizeof(gid_t));
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, ticket.groups.data(), &length) != 0)
        return Status::from_errno(errno, "SO_PEERGROUPS");
    ticket.groups.resize(length / sizeof(gid_t));
    return ticket;
}

uint64_t now_ns() {
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace

Result<std::unique_ptr<Agent>> Agent::start(const std::string& path, std::shared_ptr<const Keyring> keys,
                                            const Id& cluster, unsigned ticket_seconds) {
    Result<sockaddr_un> address = socket_address(path);
    if (!address.ok()) return address.status();
    struct stat found;
    if (::lstat(path.c_str(), &found) == 0 && S_ISSOCK(found.st_mode)) ::unlink(path.c_str());
    std::unique_ptr<Agent> agent(new Agent);
    agent->listener_ = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    agent->stop_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
    if (!agent->listener_ || !agent->stop_ ||
        ::bind(agent->listener_.get(), reinterpret_cast<sockaddr*>(&*address), sizeof(sockaddr_un)) != 0 ||
        ::chmod(path.c_str(), 0666) != 0 || ::listen(agent->listener_.get(), 128) != 0)
        return Status::from_errno(errno, "agent socket " + path);
    agent->path_ = path;
    agent->keys_ = std::move(keys);
    agent->cluster_ = cluster;
    agent->seconds_ = ticket_seconds;
    agent->thread_ = std::thread([self = agent.get()] { self->serve(); });
    return agent;
}

Agent::~Agent() {
    if (!thread_.joinable()) return;
    uint64_t one = 1;
    [[maybe_unused]] ssize_t written = ::write(stop_.get(), &one, sizeof one);
    thread_.join();
    ::unlink(path_.c_str());
}

// The answer fits into a socket's buffer and nothing is read, so no client can hold the thread up.
void Agent::serve() {
    for (;;) {
        pollfd ready[2] = {{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
        if (::poll(ready, 2, -1) < 0 && errno != EINTR) return;
        if (ready[1].revents != 0) return;
        if ((ready[0].revents & POLLIN) == 0) continue;
        UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (client) {
            answer(client.get());
        } else if (errno == EMFILE || errno == ENFILE) {
            ::poll(&ready[1], 1, 100);  // others have to give descriptors back first
        }
    }
}

void Agent::answer(int socket) const {
    Result<Ticket> ticket = ticket_for_peer(socket);
    Status status = ticket.status();
    Result<std::string> sealed = status;
    if (ticket.ok()) {
        // One client id for each user of the cluster: what one process of a user may use, another may too.
        ticket->cluster = cluster_;
        std::memcpy(ticket->client.data(), &ticket->uid, sizeof ticket->uid);
        ticket->expiry_ns = now_ns() + uint64_t{seconds_} * 1'000'000'000;
        sealed = seal(*keys_, *ticket);
    }
    std::optional<Key> secret;
    if (sealed.ok()) secret = secret_of(*keys_, *sealed);
    uint32_t error = secret ? 0 : static_cast<uint32_t>(sealed.ok() ? EIO : sealed.status().errno_value());
    if (error != 0) log::warn("XDS agent {}: no ticket: {}", path_, sealed.status().message());
    std::string bytes(answer_head, '\0');
    std::memcpy(bytes.data(), &error, sizeof error);
    if (secret) {
        std::memcpy(bytes.data() + 4, secret->data(), secret->size());
        std::memcpy(bytes.data() + 4 + sizeof(Key), cluster_.data(), cluster_.size());
        bytes += *sealed;
    }
    [[maybe_unused]] ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

Result<Issued> ask_agent(const std::string& path) {
    Result<sockaddr_un> address = socket_address(path);
    if (!address.ok()) return address.status();
    UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    timeval limit{10, 0};
    if (!socket || ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
        ::connect(socket.get(), reinterpret_cast<sockaddr*>(&*address), sizeof(sockaddr_un)) != 0)
        return Status::from_errno(errno, "agent " + path);
    std::string bytes;
    char buffer[2048];
    for (;;) {
        ssize_t got = ::recv(socket.get(), buffer, sizeof buffer, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return Status::from_errno(errno, "agent " + path);
        if (got == 0 || bytes.size() > answer_head + wire::max_ticket) break;
        bytes.append(buffer, static_cast<size_t>(got));
    }
    uint32_t error = EPROTO;
    if (bytes.size() >= answer_head) std::memcpy(&error, bytes.data(), sizeof error);
    if (error != 0) return Status::from_errno(static_cast<int>(error), "agent " + path + " gave no ticket");
    Issued issued;
    std::memcpy(issued.secret.data(), bytes.data() + 4, sizeof(Key));
    std::memcpy(issued.cluster.data(), bytes.data() + 4 + sizeof(Key), sizeof(Id));
    issued.ticket = bytes.substr(answer_head);
    return issued;
}

}  // namespace fabric::xds::security
