// XDS over TCP: a message is followed by its data. Data is received into the owner's memory and sent from it; nothing
// passes through a buffer of the connection but headers and bodies.
#pragma once

#include <sys/socket.h>

#include <array>
#include <memory>

#include "xds/transport/connection.h"

namespace fabric::xds::transport {

class TcpConnection : public Connection {
  public:
    // Takes a connected socket and starts to receive. On the reactor's thread.
    TcpConnection(Reactor& reactor, Owner& owner, UniqueFd socket);
    // Only after on_closed().
    ~TcpConnection() override = default;

    void fetch(Fetch& fetch) override;
    void skip() override;
    void close(const Status& why) override;
    const std::string& peer() const override { return peer_; }
    bool carries_data_inline() const override { return true; }

  private:
    static constexpr size_t parts_at_once = 128;  // of an iovec, in one system call
    enum class Receiving { header, body, owner, data, skipped };
    struct Half : Operation {
        TcpConnection* connection = nullptr;
        msghdr message{};
        std::array<iovec, parts_at_once> iov{};
    };

    struct Last : Task {
        TcpConnection* connection = nullptr;
    };

    void enqueue(Send& send) override;
    void start_send();
    void sent(int result);
    void complete_sends(size_t bytes);
    void receive(void* to, size_t length);
    void receive_data();
    void received(int result);
    void header_received();
    void body_received();
    void data_received(size_t bytes);
    void next_message();
    void finish_close();

    UniqueFd socket_;
    std::string peer_;

    Half out_;
    Send* first_send_ = nullptr;
    Send* last_send_ = nullptr;
    bool completing_ = false;   // sent() of finished messages is being called
    size_t sent_of_first_ = 0;  // bytes, of the message and its data

    Half in_;
    Receiving receiving_ = Receiving::header;
    size_t received_ = 0;  // bytes of the part that is being received
    size_t wanted_ = 0;    // bytes of that part
    wire::HeaderBytes header_{};
    std::unique_ptr<std::byte[]> body_;
    size_t body_length_ = 0;
    size_t data_length_ = 0;
    Fetch* fetch_ = nullptr;

    Status why_;
    Last last_task_;
    bool finishing_ = false;
};

}  // namespace fabric::xds::transport
