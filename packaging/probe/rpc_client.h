// One RPC client over one TCP connection, on libtirpc, for asking a server that may be anything how it is.
//
// Nothing that comes back is trusted: replies are decoded into bounded memory, and a call ends at its deadline even
// when the other side keeps sending something. Not for use inside ganesha.nfsd, whose own RPC library has the same
// symbols.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/result.h"

namespace fabric::probe {

struct Endpoint {
    std::string host;
    uint16_t port = 0;
};

// RPC programs with their version, RFC 1833, 1813, 7530.
struct Program {
    uint32_t number;
    uint32_t version;
};
inline constexpr Program rpcbind_v2{100000, 2};
inline constexpr Program nfs_v3{100003, 3};
inline constexpr Program nfs_v4{100003, 4};
inline constexpr Program mount_v3{100005, 3};

struct Export {
    std::string path;
    std::vector<std::string> groups;  // who may mount it; empty: everybody
};

struct ExportList {
    std::vector<Export> exports;
    bool truncated = false;  // the server sent more than max_exports or max_groups
};

// A listing is cut there; a server cannot make the probe keep more.
inline constexpr size_t max_exports = 10'000;
inline constexpr size_t max_groups = 100'000;  // of all exports together

// Not thread safe: one thread at a time. The process must ignore SIGPIPE (libtirpc writes without MSG_NOSIGNAL).
class RpcClient {
  public:
    // `timeout` bounds the connect, and later every call, as a whole.
    static Result<RpcClient> connect(const Endpoint& endpoint, Program program, std::chrono::milliseconds timeout);
    RpcClient(RpcClient&&) noexcept;
    RpcClient& operator=(RpcClient&&) noexcept;
    ~RpcClient();

    // Procedure 0, which every RPC program has.
    Status null_call();
    // RFC 1833 section 3: the TCP port a program is registered at; 0 when it is not.
    Result<uint16_t> registered_port(Program program);
    // MOUNT version 3, EXPORT (RFC 1813 section 5.2.5).
    Result<ExportList> exports();
    // Whether the server speaks this minor version of NFSv4: asked by a COMPOUND of PUTROOTFH (RFC 7530 section 15.2).
    // Without a session 4.1 and later refuse it, but by another error than a version they do not know.
    Result<bool> speaks_minor_version(uint32_t minor);

  private:
    struct State;
    explicit RpcClient(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

}  // namespace fabric::probe
