// One RDMA connection to a server, driven by hand: messages out, messages in, and memory that the peer may reach.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "tests/rdma/header.h"
#include "tests/rdma/xdr.h"

namespace rogue {

using std::chrono::milliseconds;

struct Endpoint {
    std::string address;
    std::string port;
};

/// A NIC object with its deleter.
template <typename T, int (*destroy)(T*)>
struct Destroyer {
    void operator()(T* object) const { destroy(object); }
};

struct ConnectionOptions {
    size_t memory = 16u << 20;      // bytes that the peer may read and write
    uint32_t receives = 128;        // receives kept posted
    uint32_t receive_size = 16384;  // bytes of each
    uint8_t reads = 16;             // RDMA READs of the peer that we answer at once, as we offer
    Bytes private_data = {};        // of the connection request (RFC 8797), at most 56 bytes
    bool give_up = false;           // go without the answer to the request
};

/// Not thread safe. Throws Failure when the connection cannot be made; later trouble shows as `closed()`.
class Connection {
  public:
    Connection(const Endpoint& server, const ConnectionOptions& options = {});
    ~Connection();
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    /// Sends one message and returns at once; false when the connection is gone.
    bool send(std::span<const uint8_t> message);
    /// Waits until the server's end has all that was sent; false at the time-out.
    bool await_sent(milliseconds timeout);
    /// The next message; nothing at the time-out, or when the connection ended (see `closed()`).
    std::optional<Bytes> receive(milliseconds timeout);
    /// Waits until the server ends the connection.
    bool wait_closed(milliseconds timeout);
    bool closed();

    /// Memory of ours that the peer may reach through `rkey()`.
    std::span<uint8_t> memory() { return memory_; }
    uint32_t rkey() const { return memory_region_->rkey; }
    uint64_t address(size_t offset) const { return reinterpret_cast<uintptr_t>(memory_.data()) + offset; }
    Segment segment(size_t offset, uint32_t length) const { return {rkey(), length, address(offset)}; }

    /// What the server granted when it accepted: RDMA READs that it sends us at once, and that it answers at once.
    uint8_t granted_initiator_depth() const { return granted_initiator_depth_; }
    uint8_t granted_responder_resources() const { return granted_responder_resources_; }
    /// What the server said when it accepted.
    const Bytes& private_data() const { return private_data_; }

    /// Reads the peer's memory by RDMA; false when the peer does not let us in, which ends the connection.
    bool read_peer(uint64_t address, uint32_t key, uint32_t length, milliseconds timeout);

    /// Ends the connection in order (rdma_disconnect).
    void disconnect();
    /// Puts our queue pair in error, without a word to the peer: its work requests find nobody.
    void break_queue_pair();

  private:
    void resolve(const Endpoint& server);
    void create_queue_pair();
    void connect();
    rdma_cm_event await_event(rdma_cm_event_type expected);
    void post_receive(uint32_t slot);
    void poll_queue();
    void poll_events();
    bool wait(milliseconds timeout);

    ConnectionOptions options_;
    std::unique_ptr<rdma_event_channel, void (*)(rdma_event_channel*)> channel_;
    std::unique_ptr<rdma_cm_id, Destroyer<rdma_cm_id, rdma_destroy_id>> id_;
    std::unique_ptr<ibv_pd, Destroyer<ibv_pd, ibv_dealloc_pd>> domain_;
    std::unique_ptr<ibv_comp_channel, Destroyer<ibv_comp_channel, ibv_destroy_comp_channel>> completions_;
    std::unique_ptr<ibv_cq, Destroyer<ibv_cq, ibv_destroy_cq>> queue_;
    std::vector<uint8_t> buffers_;  // receive slots, then send slots
    std::vector<uint8_t> memory_;
    std::unique_ptr<ibv_mr, Destroyer<ibv_mr, ibv_dereg_mr>> buffer_region_;
    std::unique_ptr<ibv_mr, Destroyer<ibv_mr, ibv_dereg_mr>> memory_region_;
    std::deque<uint32_t> free_sends_;
    std::deque<Bytes> inbox_;
    bool peer_read_done_ = false;
    Bytes private_data_;
    uint8_t granted_initiator_depth_ = 0, granted_responder_resources_ = 0;
    bool closed_ = false;
    bool connected_ = false;
};

}  // namespace rogue
