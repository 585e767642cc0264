// What the command-line tools share: contexts and files of libxds with owners, and names of remote files.
#pragma once

#include <optional>
#include <string>

#include "common/result.h"
#include "xds/client/include/xds.h"

namespace fabric::xds::tools {

// The last failure of this thread in libxds, as a Status.
Status last_failure(int64_t negative_errno, const std::string& what);

class Context {
  public:
    static Result<Context> open(const std::string& address, const std::string& agent, bool verify);
    Context(Context&& other) noexcept;
    Context& operator=(Context&&) = delete;
    ~Context();
    xds_ctx* get() const { return ctx_; }

  private:
    explicit Context(xds_ctx* ctx) : ctx_(ctx) {}
    xds_ctx* ctx_ = nullptr;
};

class File {
  public:
    static Result<File> open(const Context& context, const std::string& path, int flags, unsigned mode);
    File(File&& other) noexcept;
    File& operator=(File&&) = delete;
    ~File();
    xds_file* get() const { return file_; }
    Result<uint64_t> size() const;

  private:
    explicit File(xds_file* file) : file_(file) {}
    xds_file* file_ = nullptr;
};

struct Remote {
    std::string address;  // empty: XDS_ADDRESS
    std::string path;
};
// xds:PATH or xds://HOST:PORT/PATH. Empty: a file of this machine.
std::optional<Remote> parse_remote(const std::string& name);

// 64MiB, 4096, ... ; empty: not a size.
std::optional<uint64_t> parse_size(const std::string& text);

}  // namespace fabric::xds::tools
