// A node's agent: gives a local process a ticket for the user that the kernel says it is (SO_PEERCRED and SO_PEERGROUPS
// of unix(7)), so that no user can ask for another's.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "common/unique_fd.h"
#include "xds/security/capability.h"

namespace fabric::xds::security {

struct Issued {
    std::string ticket;
    Key secret{};
    Id cluster{};
};

class Agent {
  public:
    // Listens on the Unix socket `path`; a socket left by an earlier process is replaced, anything else is not.
    // Every local user may connect.
    static Result<std::unique_ptr<Agent>> start(const std::string& path, std::shared_ptr<const Keyring> keys,
                                                const Id& cluster, unsigned ticket_seconds);
    ~Agent();

  private:
    Agent() = default;
    void serve();
    void answer(int socket) const;

    std::string path_;
    std::shared_ptr<const Keyring> keys_;
    Id cluster_{};
    unsigned seconds_ = 0;
    UniqueFd listener_;
    UniqueFd stop_;
    std::thread thread_;
};

// A ticket for the calling process's user. Blocks for 10 s at most.
Result<Issued> ask_agent(const std::string& path);

}  // namespace fabric::xds::security
