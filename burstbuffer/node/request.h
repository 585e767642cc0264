// What a request of fabricctl says, and failures on the way to its answer.
#pragma once

#include <string>
#include <vector>

#include "burstbuffer/control/server.h"
#include "common/fs/file_id.h"
#include "common/result.h"

namespace fabric::node {

// Errors say what is missing or wrong.
Result<std::string> text(const control::Json& request, const char* key);
Result<bool> flag(const control::Json& request, const char* key);
// "paths", and what the file "manifest" lists.
Result<std::vector<std::string>> paths_of(const control::Json& request);

// A file's lasting name in a request: its bytes as hexadecimal digits.
std::string hexadecimal(const fs::FileId& file);
Result<fs::FileId> file_of(const control::Json& request, const char* key);

control::Json failure(const std::string& path, const std::string& cause);

// Failures are told one by one, the first ones at least.
class Failures {
  public:
    explicit Failures(control::Reply& reply) : reply_(reply) {}
    // False: nobody listens any more.
    bool add(const std::string& path, const std::string& cause) {
        ++count_;
        return count_ > most || reply_.event(failure(path, cause));
    }
    uint64_t count() const { return count_; }

  private:
    static constexpr uint64_t most = 1000;
    control::Reply& reply_;
    uint64_t count_ = 0;
};

}  // namespace fabric::node
