// A fabricd process of the test's own.
#pragma once

#include <sys/types.h>

#include <string>

namespace fabric::xds {

class Daemon {
  public:
    // Serves `root` on the tests' host at `port` (0: a free one); ready when it returns.
    explicit Daemon(const std::string& root, int port = 0);
    ~Daemon();
    int port() const { return port_; }
    std::string address() const;
    void kill();
    // All its threads stand still when pause() returns.
    void pause();
    void resume();
    // SIGTERM; its exit status.
    int terminate();

  private:
    int wait();
    std::string config_;
    pid_t pid_ = -1;
    int port_ = 0;
};

}  // namespace fabric::xds
