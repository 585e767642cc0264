#include "burstbuffer/control/server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "burstbuffer/control/address.h"
#include "common/log.h"

namespace fabric::control {

namespace {

// A client that has connected and asks for nothing is not waited for longer.
constexpr std::chrono::seconds patience{10};

Status check_peer(int socket) {
    ucred peer{};
    socklen_t length = sizeof peer;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
        return Status::from_errno(errno, "SO_PEERCRED");
    if (peer.uid == 0 || peer.uid == geteuid()) return {};
    return Status::from_errno(
        EACCES, "only root and the server's own user may give orders, not user " + std::to_string(peer.uid));
}

Json failure(const Status& status) {
    return {{"end", true}, {"ok", false}, {"error", status.message()}, {"errno", status.errno_value()}};
}

}  // namespace

bool Reply::event(const Json& message) {
    if (gone()) return false;
    std::lock_guard lock(mutex_);
    return send(socket_, message).ok();
}

bool Reply::gone() const {
    if (stopped_) return true;
    pollfd ready{socket_, POLLRDHUP, 0};
    return poll(&ready, 1, 0) > 0 && (ready.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

Result<std::unique_ptr<Server>> Server::start(const std::string& path, Handler handler) {
    Result<sockaddr_un> address = address_of(path);
    if (!address.ok()) return address.status();
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
    struct stat found {};
    if (lstat(path.c_str(), &found) == 0 && S_ISSOCK(found.st_mode)) unlink(path.c_str());
    std::unique_ptr<Server> server(new Server(path, std::move(handler)));
    server->listener_ = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    server->stop_ = UniqueFd(eventfd(0, EFD_CLOEXEC));
    if (!server->listener_ || !server->stop_ ||
        bind(server->listener_.get(), reinterpret_cast<sockaddr*>(&*address), sizeof(sockaddr_un)) != 0 ||
        chmod(path.c_str(), 0600) != 0 || ::listen(server->listener_.get(), 128) != 0) {
        return Status::from_errno(errno, "control socket " + path);
    }
    server->thread_ = std::jthread([self = server.get()] { self->listen(); });
    return server;
}

Server::~Server() {
    if (!thread_.joinable()) return;
    uint64_t one = 1;
    [[maybe_unused]] ssize_t written = write(stop_.get(), &one, sizeof one);
    thread_.join();
    for (Client& client : clients_) {
        client.reply.stop();
        shutdown(client.socket.get(), SHUT_RDWR);
    }
    clients_.clear();
    unlink(path_.c_str());
}

void Server::listen() {
    for (;;) {
        pollfd ready[2] = {{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
        if (poll(ready, 2, -1) < 0 && errno != EINTR) return;
        if (ready[1].revents != 0) return;
        if ((ready[0].revents & POLLIN) == 0) continue;
        UniqueFd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (client) {
            add(std::move(client));
        } else if (errno == EMFILE || errno == ENFILE) {
            poll(&ready[1], 1, 100);  // others have to give descriptors back first
        }
    }
}

void Server::add(UniqueFd socket) {
    clients_.remove_if([](const Client& client) { return client.over.load(); });
    // A client that does not read must not hold a request up for ever.
    timeval limit{patience.count(), 0};
    setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    Status status = check_peer(socket.get());
    if (status.ok() && clients_.size() >= most_clients) {
        status = Status(Code::unavailable, EAGAIN, "too many clients at once");
    }
    if (!status.ok()) {
        log::warn("control socket {}: refused: {}", path_, status.message());
        if (Status sent = send(socket.get(), failure(status)); !sent.ok()) log::debug("{}", sent.message());
        return;
    }
    Client& client = clients_.emplace_back(std::move(socket));
    client.thread = std::jthread([this, &client] { serve(client); });
}

void Server::serve(Client& client) const {
    int socket = client.socket.get();
    for (;;) {
        Result<Json> request = receive(socket, patience);
        if (!request.ok()) {
            bool told = request.status().code() != Code::corrupt || send(socket, failure(request.status())).ok();
            if (request.status().code() == Code::corrupt) {
                log::warn("control socket {}: {}{}", path_, request.status().message(), told ? "" : " (not told)");
            }
            break;
        }
        Result<Json> answer = handler_(*request, client.reply);
        Json message = answer.ok() ? *answer : failure(answer.status());
        message["end"] = true;
        if (answer.ok() && !message.contains("ok")) message["ok"] = true;
        if (!send(socket, message).ok()) break;
    }
    shutdown(socket, SHUT_RDWR);
    client.over = true;
}

}  // namespace fabric::control
