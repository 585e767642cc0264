#include "xds/transport/tcp/tcp_dial.h"

#include "xds/transport/tcp/tcp_address.h"
#include "xds/transport/tcp/tcp_connection.h"

namespace fabric::xds::transport {

TcpDial::TcpDial(Reactor& reactor, DialOwner& owner, Owner& messages, const To& to)
    : reactor_(reactor), owner_(owner), messages_(messages), to_(to) {
    connect_.dial = patience_.dial = failed_.dial = this;
    socket_ = UniqueFd(::socket(to.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket_) {
        why_ = Status::from_errno(errno, "socket");
        failed_.run = [](Task& task) {
            TcpDial& self = *static_cast<Failed&>(task).dial;
            self.owner_.on_dialed(self.why_);
        };
        reactor_.post(failed_);
        return;
    }
    connect_.complete = [](Operation& operation, int result) {
        static_cast<Connect&>(operation).dial->connected(result);
    };
    reactor_.submit(connect_, [&](io_uring_sqe* sqe) {
        io_uring_prep_connect(sqe, socket_.get(), reinterpret_cast<const sockaddr*>(&to_.address), to_.length);
    });
    patience_.expired = [](Timer& timer) {
        static_cast<Patience&>(timer).dial->cancel(Status::from_errno(ETIMEDOUT, "connect"));
    };
    patience_.deadline = std::chrono::steady_clock::now() + to.limit;
    reactor_.arm(patience_);
}

// Its timer is not armed any more: the reactor may be gone.
TcpDial::~TcpDial() = default;

void TcpDial::cancel(const Status& why) {
    if (why_.ok()) why_ = why;
    reactor_.cancel(connect_);
}

void TcpDial::connected(int result) {
    reactor_.disarm(patience_);
    if (!why_.ok()) return owner_.on_dialed(why_);
    if (result < 0) return owner_.on_dialed(Status::from_errno(-result, "connect"));
    owner_.on_dialed(
        std::unique_ptr<Connection>(std::make_unique<TcpConnection>(reactor_, messages_, std::move(socket_))));
}

}  // namespace fabric::xds::transport
