// A client's way to a connection over TCP.
#pragma once

#include <sys/socket.h>

#include <chrono>

#include "common/unique_fd.h"
#include "xds/transport/connection.h"

namespace fabric::xds::transport {

class TcpDial : public Dial {
  public:
    struct To {
        sockaddr_storage address{};
        socklen_t length = 0;
        std::chrono::milliseconds limit{10'000};
    };
    // `messages` will own the connection, `owner` is told how it ended.
    TcpDial(Reactor& reactor, DialOwner& owner, Owner& messages, const To& to);
    ~TcpDial() override;
    void cancel(const Status& why) override;

  private:
    struct Connect : Operation {
        TcpDial* dial = nullptr;
    };
    struct Patience : Timer {
        TcpDial* dial = nullptr;
    };
    struct Failed : Task {
        TcpDial* dial = nullptr;
    };

    void connected(int result);

    Reactor& reactor_;
    DialOwner& owner_;
    Owner& messages_;
    To to_;
    UniqueFd socket_;
    Connect connect_;
    Patience patience_;
    Failed failed_;
    Status why_;  // it was cancelled, or could not begin
};

}  // namespace fabric::xds::transport
