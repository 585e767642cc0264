#include "burstbuffer/control/client.h"

#include <sys/socket.h>

#include "burstbuffer/control/address.h"

namespace fabric::control {

Result<Client> Client::connect(const std::string& path) {
    Result<sockaddr_un> address = address_of(path);
    if (!address.ok()) return address.status();
    UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket || ::connect(socket.get(), reinterpret_cast<sockaddr*>(&*address), sizeof(sockaddr_un)) != 0) {
        int error = errno;
        std::string hint = error == ENOENT || error == ECONNREFUSED
                               ? " (is the gateway or fabricd running, with a burst buffer?)"
                               : "";
        return Status(Code::unavailable, error, Status::from_errno(error, "control socket " + path).message() + hint);
    }
    return Client(path, std::move(socket));
}

Result<Json> Client::ask(const Json& request, const std::function<void(const Json&)>& event) {
    FABRIC_RETURN_IF_ERROR(send(socket_.get(), request));
    for (;;) {
        Result<Json> message = receive(socket_.get(), std::chrono::milliseconds(0));
        if (!message.ok()) {
            return Status(Code::unavailable, message.status().errno_value(),
                          path_ + ": the node ended before it answered: " + message.status().message());
        }
        if (!message->value("end", false)) {
            if (event) event(*message);
            continue;
        }
        if (message->value("ok", false) || !message->contains("error")) return message;
        return Status(Code::io, message->value("errno", EIO), message->value("error", std::string("unknown error")));
    }
}

}  // namespace fabric::control
