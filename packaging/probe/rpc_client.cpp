#include "packaging/probe/rpc_client.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <rpc/rpc.h>
#include <sys/socket.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <thread>
#include <utility>

#include "common/unique_fd.h"

namespace fabric::probe {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr uint32_t procedure_getport = 3;   // rpcbind version 2
constexpr uint32_t procedure_export = 5;    // MOUNT
constexpr uint32_t procedure_compound = 1;  // NFS version 4
constexpr uint32_t operation_putrootfh = 24;
constexpr uint32_t nfs4err_minor_vers_mismatch = 10021;
constexpr size_t max_path = 1024;  // MNTPATHLEN
constexpr size_t max_name = 255;   // MNTNAMLEN

// libtirpc waits anew for every piece of a reply, so one byte now and then keeps it waiting for ever. This shuts the
// socket down when the time is over, whatever arrives.
class Deadline {
  public:
    Deadline(int fd, milliseconds timeout)
        : thread_([this, fd, until = Clock::now() + timeout] { watch(fd, until); }) {}
    ~Deadline() { stop(); }
    // True when the deadline struck.
    bool stop() {
        {
            std::lock_guard lock(mutex_);
            done_ = true;
        }
        changed_.notify_one();
        if (thread_.joinable()) thread_.join();
        return expired_;
    }

  private:
    void watch(int fd, Clock::time_point until) {
        std::unique_lock lock(mutex_);
        if (changed_.wait_until(lock, until, [this] { return done_; })) return;
        expired_ = true;
        ::shutdown(fd, SHUT_RDWR);
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    bool done_ = false;
    bool expired_ = false;
    std::thread thread_;  // last: it uses the others
};

std::string at(const Endpoint& endpoint) { return endpoint.host + " port " + std::to_string(endpoint.port); }

Status timed_out(const Endpoint& endpoint, milliseconds timeout, std::string_view what) {
    return {Code::timeout, ETIMEDOUT,
            std::string(what) + " " + at(endpoint) + " within " + std::to_string(timeout.count()) +
                " ms: the server hangs, or a firewall drops the packets"};
}

Status connect_error(const Endpoint& endpoint, int error) {
    if (error == ECONNREFUSED)
        return {Code::unavailable, error, "connection refused: nothing listens on " + at(endpoint)};
    return Status::from_errno(error, "connect to " + at(endpoint));
}

Status wait_connected(int fd, const Endpoint& endpoint, milliseconds timeout) {
    pollfd poll_fd{fd, POLLOUT, 0};
    const auto until = Clock::now() + timeout;
    for (;;) {
        auto left = std::chrono::duration_cast<milliseconds>(until - Clock::now()).count();
        int ready = ::poll(&poll_fd, 1, static_cast<int>(std::max<int64_t>(left, 0)));
        if (ready > 0) break;
        if (ready == 0) return timed_out(endpoint, timeout, "no connection to");
        if (errno != EINTR) return Status::from_errno(errno, "poll");
    }
    int error = 0;
    socklen_t length = sizeof(error);
    if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
    return error == 0 ? Status() : connect_error(endpoint, error);
}

struct Connection {
    UniqueFd fd;
    sockaddr_storage address{};
    socklen_t address_length = 0;
};

Result<Connection> connect_one(const addrinfo& address, const Endpoint& endpoint, milliseconds timeout) {
    Connection connection;
    connection.fd = UniqueFd(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!connection.fd) return Status::from_errno(errno, "socket");
    int fd = connection.fd.get();
    if (::connect(fd, address.ai_addr, address.ai_addrlen) != 0) {
        if (errno != EINPROGRESS) return connect_error(endpoint, errno);
        FABRIC_RETURN_IF_ERROR(wait_connected(fd, endpoint, timeout));
    }
    int flags = ::fcntl(fd, F_GETFL);
    if (flags < 0 || ::fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0) return Status::from_errno(errno, "fcntl");
    std::memcpy(&connection.address, address.ai_addr, address.ai_addrlen);
    connection.address_length = address.ai_addrlen;
    return connection;
}

Result<Connection> connect_any(const Endpoint& endpoint, milliseconds timeout) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV;
    addrinfo* list = nullptr;
    if (int error = ::getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &list))
        return Status{Code::unavailable, EHOSTUNREACH,
                      "host name " + endpoint.host + " cannot be resolved: " + ::gai_strerror(error)};
    std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, ::freeaddrinfo);
    Result<Connection> result = Status{Code::unavailable, EHOSTUNREACH, endpoint.host + " has no address"};
    for (addrinfo* address = list; address != nullptr; address = address->ai_next) {
        result = connect_one(*address, endpoint, timeout);
        if (result.ok()) break;
    }
    return result;
}

// An XDR string of at most `limit` bytes. XDR's own xdr_string would allocate as the peer says.
bool decode_string(XDR* xdrs, std::string& text, size_t limit) {
    u_int length = 0;
    if (!xdr_u_int(xdrs, &length) || length > limit) return false;
    text.resize(length);
    return xdr_opaque(xdrs, text.data(), length);
}

bool decode_exports(XDR* xdrs, ExportList& list) {
    size_t groups = 0;
    for (;;) {
        bool_t more = FALSE;
        if (!xdr_bool(xdrs, &more)) return false;
        if (!more) return true;
        if (list.exports.size() == max_exports) break;
        Export& entry = list.exports.emplace_back();
        if (!decode_string(xdrs, entry.path, max_path)) return false;
        while (xdr_bool(xdrs, &more) && more) {
            if (groups++ == max_groups) {
                list.truncated = true;
                return true;
            }
            if (!decode_string(xdrs, entry.groups.emplace_back(), max_name)) return false;
        }
        if (more) return false;
    }
    list.truncated = true;
    return true;
}

// Arguments and results are coded by a function that says whether it worked.
using Coder = std::function<bool(XDR*)>;
const Coder nothing = [](XDR*) { return true; };

bool encode_words(XDR* xdrs, std::initializer_list<u_int> words) {
    return std::all_of(words.begin(), words.end(), [xdrs](u_int word) { return xdr_u_int(xdrs, &word); });
}

struct Coding {
    const Coder& coder;
    bool used = false;
};

bool_t run_coder(XDR* xdrs, Coding* coding) {
    coding->used = true;
    return coding->coder(xdrs) ? TRUE : FALSE;
}

}  // namespace

struct RpcClient::State {
    Endpoint endpoint;
    milliseconds timeout{};
    Connection connection;
    std::unique_ptr<CLIENT, void (*)(CLIENT*)> client{nullptr, [](CLIENT* handle) { clnt_destroy(handle); }};

    Status call(uint32_t number, const Coder& encode, const Coder& decode);
    Status explain(clnt_stat status) const;
};

Status RpcClient::State::call(uint32_t number, const Coder& encode, const Coder& decode) {
    timeval limit{timeout.count() / 1000, static_cast<suseconds_t>(timeout.count() % 1000 * 1000)};
    Coding arguments{encode}, results{decode};
    auto run = reinterpret_cast<xdrproc_t>(run_coder);
    Deadline deadline(connection.fd.get(), timeout);
    clnt_stat status = clnt_call(client.get(), number, run, reinterpret_cast<char*>(&arguments), run,
                                 reinterpret_cast<char*>(&results), limit);
    bool expired = deadline.stop();
    // libtirpc 1.3.3 calls it a success when a fragment of length 0 comes instead of a reply: nothing was decoded then.
    if (status == RPC_SUCCESS && results.used) return {};
    if (status == RPC_SUCCESS) status = RPC_CANTDECODERES;
    if (expired || status == RPC_TIMEDOUT) return timed_out(endpoint, timeout, "no complete answer from");
    return explain(status);
}

Status RpcClient::State::explain(clnt_stat status) const {
    rpc_err error{};
    clnt_geterr(client.get(), &error);
    const std::string where = at(endpoint);
    switch (status) {
        case RPC_PROGUNAVAIL:
            return {Code::unavailable, EPROTONOSUPPORT, where + " answers RPC calls but does not have this program"};
        case RPC_PROGVERSMISMATCH:
            return {Code::unavailable, EPROTONOSUPPORT,
                    where + " does not speak this version, only " + std::to_string(error.re_vers.low) + " to " +
                        std::to_string(error.re_vers.high)};
        case RPC_CANTSEND:
        case RPC_CANTRECV:
            return {Code::unavailable, ECONNRESET, where + " closed the connection instead of answering"};
        case RPC_CANTDECODERES:
            return {Code::corrupt, EBADMSG,
                    where + " sent a reply that cannot be decoded: is it an RPC server of this kind?"};
        default:
            return {Code::io, EPROTO, where + ": " + clnt_sperrno(status)};
    }
}

RpcClient::RpcClient(std::unique_ptr<State> state) : state_(std::move(state)) {}
RpcClient::RpcClient(RpcClient&&) noexcept = default;
RpcClient& RpcClient::operator=(RpcClient&&) noexcept = default;
RpcClient::~RpcClient() = default;

Result<RpcClient> RpcClient::connect(const Endpoint& endpoint, Program program, milliseconds timeout) {
    Result<Connection> connection = connect_any(endpoint, timeout);
    if (!connection.ok()) return connection.status();
    auto state = std::make_unique<State>();
    state->endpoint = endpoint;
    state->timeout = timeout;
    state->connection = std::move(connection).value();
    netbuf address{};
    address.buf = &state->connection.address;
    address.len = address.maxlen = state->connection.address_length;
    state->client.reset(clnt_vc_create(state->connection.fd.get(), &address, program.number, program.version, 0, 0));
    if (!state->client) return Status{Code::io, EPROTO, at(endpoint) + ": " + clnt_sperrno(rpc_createerr.cf_stat)};
    return RpcClient(std::move(state));
}

Status RpcClient::null_call() { return state_->call(0, nothing, nothing); }

Result<uint16_t> RpcClient::registered_port(Program program) {
    u_int port = 0;
    FABRIC_RETURN_IF_ERROR(state_->call(
        procedure_getport,
        [&](XDR* xdrs) {
            return encode_words(xdrs, {program.number, program.version, IPPROTO_TCP, 0});
        },
        [&](XDR* xdrs) { return xdr_u_int(xdrs, &port); }));
    if (port > UINT16_MAX)
        return Status{Code::corrupt, EBADMSG, at(state_->endpoint) + " names port " + std::to_string(port)};
    return static_cast<uint16_t>(port);
}

Result<ExportList> RpcClient::exports() {
    ExportList list;
    FABRIC_RETURN_IF_ERROR(
        state_->call(procedure_export, nothing, [&](XDR* xdrs) { return decode_exports(xdrs, list); }));
    return list;
}

Result<bool> RpcClient::speaks_minor_version(uint32_t minor) {
    u_int status = 0;
    FABRIC_RETURN_IF_ERROR(state_->call(
        procedure_compound,
        [&](XDR* xdrs) {
            return encode_words(xdrs, {0, minor, 1, operation_putrootfh});  // no tag, the version, one operation
        },
        [&](XDR* xdrs) { return xdr_u_int(xdrs, &status); }));
    return status != nfs4err_minor_vers_mismatch;
}

}  // namespace fabric::probe
