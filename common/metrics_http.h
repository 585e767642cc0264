// Serves the process's metrics at http://ADDRESS/metrics.
#pragma once

#include <memory>
#include <string>

#include "common/result.h"

namespace fabric::metrics {

class HttpServer {
  public:
    // `address` is HOST:PORT, e.g. "127.0.0.1:9587". Port 0 takes a free one.
    static Result<std::unique_ptr<HttpServer>> start(const std::string& address);
    ~HttpServer();

    int port() const;

  private:
    struct Impl;
    explicit HttpServer(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace fabric::metrics
