// The beginning of a connection: who the client is.
#include <algorithm>
#include <cstring>

#include "common/log.h"
#include "xds/security/capability.h"
#include "xds/target/session.h"
#include "xds/target/target.h"

namespace fabric::xds::target {
namespace {

using security::ReplayWindow;

// The peer learns that it was refused; why stands in the log, for those who may know.
Status refused(const std::string& peer, const std::string& why) {
    log::warn("XDS client {}: ticket refused: {}", peer, why);
    return {Code::invalid, EACCES, "this target does not accept the client's ticket; its log says why"};
}

}  // namespace

// The proof is over the hello's body as it was sent; it is encoded again from its fields, which has one result.
Result<User> Session::authenticate(const wire::Hello& hello) {
    User user;
    if (target_.open_to_all()) {
        user.client = hello.nonce;
        user.uid = target_.config().anonymous_uid;
        user.gid = target_.config().anonymous_gid;
        return user;
    }
    const std::string& peer = connection_->peer();
    uint64_t now = wall_clock_ns();
    Result<security::Ticket> ticket =
        security::open_ticket(target_.keys(), hello.ticket, {target_.config().cluster, now});
    if (!ticket.ok()) return refused(peer, hello.ticket.empty() ? "none was shown" : ticket.status().message());
    std::optional<security::Key> secret = security::secret_of(target_.keys(), hello.ticket);
    if (!secret) return refused(peer, "its key is gone");
    std::vector<std::byte> bytes(wire::max_message);
    Result<size_t> size = wire::encode({}, hello, bytes);
    if (!size.ok()) return size.status();
    security::Digest proof = security::hello_proof(*secret, wire::Bytes(bytes).first(*size).subspan(wire::header_size));
    if (!security::equal_in_constant_time(proof, hello.proof)) return refused(peer, "it belongs to somebody else");
    // From here on the client is known, so the answer may be plain.
    switch (target_.replays().admit(hello.nonce, hello.time_ns, now)) {
        case ReplayWindow::Answer::fresh:
            break;
        case ReplayWindow::Answer::replayed:
            return refused(peer, "this hello was seen before");
        case ReplayWindow::Answer::wrong_time:
            return Status(Code::invalid, EACCES,
                          "the clocks of client and target differ by more than " +
                              std::to_string(target_.config().clock_seconds) + " s: set them by NTP");
        case ReplayWindow::Answer::full:
            return Status(Code::unavailable, EAGAIN, "too many connections were opened in the last minute");
    }
    user.client = ticket->client;
    user.uid = ticket->uid;
    user.gid = ticket->gid;
    user.groups.assign(ticket->groups.begin(), ticket->groups.end());
    return user;
}

void Session::greet(const wire::Header& header, const wire::Hello& hello) {
    reactor_.disarm(patience_);
    if (hello.version_min > wire::version || hello.version_max < wire::version)
        return refuse(header,
                      {Code::invalid, EPROTONOSUPPORT,
                       "this target speaks XDS version " + std::to_string(wire::version) + ", the client " +
                           std::to_string(hello.version_min) + " to " + std::to_string(hello.version_max)},
                      wire::Cause::not_supported);
    Result<User> user = authenticate(hello);
    if (!user.ok())
        return refuse(header, user.status(),
                      user.status().errno_value() == EAGAIN ? wire::Cause::overloaded : wire::Cause::access);
    user_ = std::move(*user);
    wire::HelloReply welcome;
    welcome.instance = target_.instance();
    welcome.map_epoch = target_.map_epoch();
    welcome.nonce = security::random_id();
    welcome.node = target_.config().node;
    if (std::optional<security::Key> secret = security::secret_of(target_.keys(), hello.ticket)) {
        std::vector<std::byte> bytes(wire::max_message);
        Result<size_t> size = wire::encode({}, welcome, bytes);
        if (size.ok())
            welcome.proof = security::welcome_proof(*secret, hello.nonce,
                                                    wire::Bytes(bytes).first(*size).subspan(wire::header_size));
    }
    greeting_.header = {};
    greeting_.header.request = header.request;
    greeting_.header.credits = target_.config().credits;
    if (Status status = connection_->send(greeting_, welcome); !status.ok()) return connection_->close(status);
    greeted_ = true;
}

void Session::refuse(const wire::Header& header, const Status& status, wire::Cause cause) {
    wire::Error error;
    error.error = static_cast<uint32_t>(status.errno_value());
    error.cause = cause;
    error.retry_after_ms = cause == wire::Cause::overloaded ? 1000 : 0;
    error.node = target_.config().node;
    error.text = std::string_view(status.message()).substr(0, wire::max_text);
    goodbye_.header = {};
    goodbye_.header.request = header.request;
    goodbye_.gone = false;
    draining_ = true;  // closes when the answer has left
    if (Status sent = connection_->send(goodbye_, error); !sent.ok()) connection_->close(sent);
}

}  // namespace fabric::xds::target
