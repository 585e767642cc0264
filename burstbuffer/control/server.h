// The control socket's end in the node: takes requests of its administrator and answers them.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "burstbuffer/control/message.h"
#include "common/unique_fd.h"

namespace fabric::control {

// The way back to one client. Any thread.
class Reply {
  public:
    explicit Reply(int socket) : socket_(socket) {}
    // Something on the way to the answer. False: nobody reads it any more, and the request should be given up.
    bool event(const Json& message);
    // The client has hung up, or the server stops.
    bool gone() const;
    void stop() { stopped_.store(true); }

  private:
    const int socket_;
    std::mutex mutex_;
    std::atomic<bool> stopped_{false};
};

class Server {
  public:
    // Called on a thread of the client's own. The answer, or why there is none.
    using Handler = std::function<Result<Json>(const Json& request, Reply& reply)>;

    // Listens on the Unix socket `path`, whose folder is made if it is not there; a socket left by an earlier process
    // is replaced, anything else is not. Only root and the process's own user are answered (SO_PEERCRED, unix(7)).
    static Result<std::unique_ptr<Server>> start(const std::string& path, Handler handler);
    // Requests are told to stop, and waited for.
    ~Server();

    const std::string& path() const { return path_; }

  private:
    struct Client {
        explicit Client(UniqueFd from) : socket(std::move(from)), reply(socket.get()) {}
        UniqueFd socket;
        Reply reply;
        std::atomic<bool> over{false};
        std::jthread thread;
    };
    static constexpr size_t most_clients = 64;

    Server(std::string path, Handler handler) : path_(std::move(path)), handler_(std::move(handler)) {}
    void listen();
    void add(UniqueFd socket);
    void serve(Client& client) const;

    const std::string path_;
    const Handler handler_;
    UniqueFd listener_;
    UniqueFd stop_;
    std::list<Client> clients_;
    std::jthread thread_;
};

}  // namespace fabric::control
