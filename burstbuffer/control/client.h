// The control socket's end in fabricctl.
#pragma once

#include <functional>
#include <string>

#include "burstbuffer/control/message.h"
#include "common/unique_fd.h"

namespace fabric::control {

class Client {
  public:
    static Result<Client> connect(const std::string& path);
    // Events go to `event`; the answer, or the node's error, is returned. It waits as long as the node works.
    Result<Json> ask(const Json& request, const std::function<void(const Json&)>& event = {});

  private:
    Client(std::string path, UniqueFd socket) : path_(std::move(path)), socket_(std::move(socket)) {}
    std::string path_;
    UniqueFd socket_;
};

}  // namespace fabric::control
