#include "burstbuffer/control/message.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>

namespace fabric::control {

namespace {

Status send_all(int socket, const char* bytes, size_t size) {
    while (size > 0) {
        ssize_t sent = ::send(socket, bytes, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return Status::from_errno(errno, "control socket: send");
        bytes += sent;
        size -= static_cast<size_t>(sent);
    }
    return {};
}

Status receive_all(int socket, char* to, size_t size, std::chrono::milliseconds limit) {
    while (size > 0) {
        pollfd ready{socket, POLLIN, 0};
        int count = poll(&ready, 1, limit.count() == 0 ? -1 : static_cast<int>(limit.count()));
        if (count < 0 && errno == EINTR) continue;
        if (count == 0) return {Code::timeout, ETIMEDOUT, "control socket: nothing came"};
        ssize_t got = recv(socket, to, size, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return Status::from_errno(errno, "control socket: receive");
        if (got == 0) return Status::from_errno(ECONNRESET, "control socket");
        to += got;
        size -= static_cast<size_t>(got);
    }
    return {};
}

}  // namespace

Status send(int socket, const Json& message) {
    // A name that is not UTF-8 is shown with marks in place of what is wrong in it.
    std::string text = message.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (text.size() > longest_message) return Status::invalid("control socket: a message is too long");
    std::string framed;
    for (unsigned shift = 0; shift < 32; shift += 8) framed.push_back(static_cast<char>(text.size() >> shift));
    framed += text;
    return send_all(socket, framed.data(), framed.size());
}

Result<Json> receive(int socket, std::chrono::milliseconds limit) {
    std::array<unsigned char, 4> head{};
    FABRIC_RETURN_IF_ERROR(receive_all(socket, reinterpret_cast<char*>(head.data()), head.size(), limit));
    uint32_t size = head[0] | uint32_t{head[1]} << 8 | uint32_t{head[2]} << 16 | uint32_t{head[3]} << 24;
    if (size > longest_message) {
        return Status(Code::corrupt, EMSGSIZE, fmt::format("control socket: a message of {} bytes", size));
    }
    std::string text(size, '\0');
    FABRIC_RETURN_IF_ERROR(receive_all(socket, text.data(), text.size(), limit));
    Json message = Json::parse(text, nullptr, false);
    if (!message.is_object()) return Status(Code::corrupt, EBADMSG, "control socket: a message that is no JSON object");
    return message;
}

}  // namespace fabric::control
