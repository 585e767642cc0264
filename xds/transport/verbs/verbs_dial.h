// A client's way to a connection over RDMA: address, route, connection.
#pragma once

#include <sys/socket.h>

#include <chrono>

#include "xds/transport/verbs/verbs_connection.h"

namespace fabric::xds::transport {

class VerbsDial : public Dial, private CmHandler {
  public:
    struct To {
        sockaddr_storage address{};
        socklen_t length = 0;
        std::chrono::milliseconds limit{10'000};  // for all of it
    };
    // `messages` will own the connection, `owner` is told how it ended.
    VerbsDial(VerbsLane& lane, DialOwner& owner, Owner& messages, VerbsDomains& domains, const To& to,
              const VerbsOptions& options);
    ~VerbsDial() override;
    void cancel(const Status& why) override { end(why); }

  private:
    struct Patience : Timer {
        VerbsDial* dial = nullptr;
    };
    struct Begin : Task {
        VerbsDial* dial = nullptr;
    };

    void begin();
    void on_cm_event(const CmEvent& event) override;
    Status step(const CmEvent& event);
    Status refused(const CmEvent& event) const;
    void end(const Status& why);

    VerbsLane& lane_;
    DialOwner& owner_;
    Owner& messages_;
    VerbsDomains& domains_;
    To to_;
    const VerbsOptions options_;
    std::string name_;
    CmId id_;
    std::unique_ptr<VerbsConnection> connection_;
    Patience patience_;
    Begin begin_;
    bool begun_ = false, over_ = false;
};

}  // namespace fabric::xds::transport
