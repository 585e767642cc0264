// The gateway of this node, asked by its control socket to drain files before XDS serves them.
#pragma once

#include <string>
#include <utility>

#include "burstbuffer/control/message.h"
#include "xds/target/write_behind.h"

namespace fabric::xds::fabricd {

// Thread safe. A connection a call, so that the gateway may be started again at any time.
class Gateway : public target::WriteBehind {
  public:
    explicit Gateway(std::string socket) : socket_(std::move(socket)) {}
    // EIO: the gateway does not answer, or cannot drain. What it holds is not known then, so nothing is served.
    Result<bool> holds_something() override;
    Status settle(const fs::FileId& file) override;

  private:
    Result<control::Json> ask(const control::Json& request) const;

    const std::string socket_;
};

}  // namespace fabric::xds::fabricd
