// A TCP server that reads RPC calls and lets a test answer them in any way it likes, wrong ways included.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

#include "common/unique_fd.h"

namespace fabric::probe {

// XDR words, big endian (RFC 4506).
class Words {
  public:
    Words& word(uint32_t value) {
        uint32_t big = htonl(value);
        bytes_.append(reinterpret_cast<const char*>(&big), sizeof(big));
        return *this;
    }
    Words& string(const std::string& text) {
        word(text.size());
        bytes_ += text;
        bytes_.append((4 - text.size() % 4) % 4, '\0');
        return *this;
    }
    const std::string& bytes() const { return bytes_; }

  private:
    std::string bytes_;
};

// One fragment that is the last of its record (RFC 5531 section 11).
inline std::string record(const std::string& body) { return Words().word(0x80000000U | body.size()).bytes() + body; }

struct Call {
    uint32_t xid, program, version, procedure;
    std::string arguments;  // after the call's header
};

// Header of an accepted, successful reply (RFC 5531 section 9) with an empty verifier; results follow.
inline std::string success(uint32_t xid) { return Words().word(xid).word(1).word(0).word(0).word(0).word(0).bytes(); }

class FakeServer {
  public:
    // Answers one call on `fd`; false closes the connection.
    using Handler = std::function<bool(int fd, const Call& call)>;

    explicit FakeServer(Handler handler) : handler_(std::move(handler)), listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t length = sizeof(address);
        auto* generic = reinterpret_cast<sockaddr*>(&address);
        if (::bind(listener_.get(), generic, length) != 0 || ::listen(listener_.get(), 8) != 0 ||
            ::getsockname(listener_.get(), generic, &length) != 0)
            throw std::runtime_error("no listening socket on loopback");
        port_ = ntohs(address.sin_port);
        thread_ = std::thread([this] { serve(); });
    }
    ~FakeServer() {
        ::shutdown(listener_.get(), SHUT_RDWR);
        thread_.join();
    }
    uint16_t port() const { return port_; }

    // False when the peer is gone.
    static bool send(int fd, const std::string& bytes) {
        for (size_t sent = 0; sent < bytes.size();) {
            ssize_t n = ::send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
            if (n <= 0) return false;
            sent += n;
        }
        return true;
    }
    // Waits until the peer closes or shuts down.
    static void wait_for_close(int fd) {
        char sink[4096];
        while (::recv(fd, sink, sizeof(sink), 0) > 0) {
        }
    }

  private:
    static bool read_exactly(int fd, void* buffer, size_t size) {
        return ::recv(fd, buffer, size, MSG_WAITALL) == static_cast<ssize_t>(size);
    }
    static bool read_call(int fd, Call& call) {
        uint32_t mark = 0;
        if (!read_exactly(fd, &mark, sizeof(mark))) return false;
        std::string body(ntohl(mark) & 0x7fffffffU, '\0');
        if (body.size() < 40 || !read_exactly(fd, body.data(), body.size())) return false;
        uint32_t words[6];
        std::memcpy(words, body.data(), sizeof(words));
        call = {ntohl(words[0]), ntohl(words[3]), ntohl(words[4]), ntohl(words[5]), body.substr(40)};
        return true;
    }
    // One connection at a time: the client under test has one.
    void serve() {
        for (;;) {
            UniqueFd connection(::accept(listener_.get(), nullptr, nullptr));
            if (!connection) return;
            Call call{};
            while (read_call(connection.get(), call) && handler_(connection.get(), call)) {
            }
        }
    }

    Handler handler_;
    UniqueFd listener_;
    uint16_t port_ = 0;
    std::thread thread_;
};

}  // namespace fabric::probe
