// One connection to the target: made when needed, greeted, and made anew after a loss.
#pragma once

#include <memory>
#include <vector>

#include "xds/client/operation.h"
#include "xds/security/hmac.h"

namespace fabric::xds::client {

// On the context's reactor thread.
class Stream : public transport::Owner, private transport::DialOwner {
  public:
    enum class State { idle, connecting, greeting, ready, failed };

    Stream(Context& context, unsigned index);
    ~Stream() override;

    unsigned index() const { return index_; }
    State state() const { return state_; }
    // Why the last attempt failed, or why the last connection ended.
    const Status& why() const { return why_; }
    // Another one for each connection: handles of an earlier one are void.
    uint64_t generation() const { return generation_; }
    uint64_t target_instance() const { return instance_; }
    const std::string& node() const { return node_; }
    bool usable() const { return state_ == State::ready && !leaving_; }
    // True: a message that needs a credit can be sent now.
    bool has_room() const { return usable() && connection_->credits() > 0; }

    // Starts to connect when idle (or failed some time ago); the context is told how it ends.
    void connect();
    void close(const Status& why);

    // Only while usable(), and for as long.
    bool carries_data_inline() const { return connection_->carries_data_inline(); }
    size_t message_limit() const { return connection_->message_limit(); }

    Piece& take_piece(Operation& operation);
    // Lends memory to the target until the piece's request is answered, in piece.exposure.
    Status expose(Piece& piece, const memory::Place& place, const void* address, size_t length, memory::Access access);
    // With the piece's send.iov and `data_length` bytes of it. An error: nothing was sent, and the piece was given
    // back.
    Status send(Piece& piece, const wire::Body& body, size_t data_length = 0);
    void give_back(Piece& piece);
    // Asks the target not to begin with those of the operation.
    void cancel(const Operation& operation);
    bool serves(const Operation& operation) const;

    void on_message(transport::Connection& connection, const wire::Header& header, const wire::Body& body) override;
    void on_credits(transport::Connection& connection) override;
    void on_closed(transport::Connection& connection, const Status& why) override;

  private:
    struct Patience : transport::Timer {
        Stream* stream = nullptr;
    };

    transport::DialOwner& dial_owner() { return *this; }
    Status dial_rdma();
    void dial_tcp();
    void on_dialed(Result<std::unique_ptr<transport::Connection>> connection) override;
    void greet();
    void welcomed(const wire::Header& header, const wire::Body& body);
    void attempt_failed(const Status& why);
    void answer(const wire::Header& header, const wire::Body& body);
    Piece& make_piece();
    void settle(Piece& piece);
    void leave_if_idle();
    bool active() const;

    Context& context_;
    const unsigned index_;
    State state_ = State::idle;
    Status why_;
    std::chrono::steady_clock::time_point failed_at_, ready_at_;
    uint64_t generation_ = 0;
    uint64_t instance_ = 0;
    std::string node_;
    bool leaving_ = false;  // the target said goodbye

    std::unique_ptr<transport::Dial> dial_, last_dial_;
    bool dialing_rdma_ = false;
    Patience patience_;  // for the target's answer to the hello
    std::unique_ptr<transport::Connection> connection_;
    security::Id nonce_{};
    transport::Send hello_;
    transport::Send recall_done_;
    bool answering_recall_ = false;
    struct CancelSend : transport::Send {
        bool busy = false;
    };
    std::vector<std::unique_ptr<CancelSend>> cancels_;

    std::vector<std::unique_ptr<Piece>> pieces_;
    Piece* free_ = nullptr;
};

}  // namespace fabric::xds::client
