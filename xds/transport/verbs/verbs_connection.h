// XDS over RDMA: messages by SEND into a shared receive queue, data by RDMA WRITE and READ of the target on memory that
// the client lends for one request. Several queue pairs make one connection; they share its completion queue.
#pragma once

#include <memory>
#include <vector>

#include "xds/protocol/rdma_handshake.h"
#include "xds/transport/connection.h"
#include "xds/transport/verbs/verbs_domain.h"
#include "xds/transport/verbs/verbs_lane.h"
#include "xds/transport/verbs/verbs_messages.h"
#include "xds/transport/verbs/verbs_queue_pair.h"
#include "xds/transport/verbs/verbs_window.h"

namespace fabric::xds::transport {

struct VerbsOptions {
    unsigned queues = 4;      // queue pairs, 1 to 8; the other side may grant fewer
    unsigned receives = 128;  // messages that may arrive before they are looked at
};

struct DestroyCmId {
    void operator()(rdma_cm_id* id) const { rdma_destroy_id(id); }
};
using CmId = std::unique_ptr<rdma_cm_id, DestroyCmId>;

class VerbsConnection : public Connection, private CmHandler, private CompletionHandler {
  public:
    // Takes an id: a client's with its route resolved, or a target's with a request to connect. It becomes the id's
    // handler with established(). On the lane's thread, as everything.
    static Result<std::unique_ptr<VerbsConnection>> make(VerbsLane& lane, Owner& owner, VerbsDomains& domains, CmId id,
                                                         const VerbsOptions& options);
    // Before on_closed() only when established() was never called.
    ~VerbsConnection() override;

    // A client's steps: request() while connecting, established() with what the target answered.
    Status request();
    Status established(const wire::RdmaHandshake& peer);
    // A target's one: answers the client's request.
    Status accept(const wire::RdmaHandshake& peer, unsigned reads_granted);
    rdma_cm_id* id() const { return id_.get(); }

    void fetch(Fetch& fetch) override;
    void skip() override {}
    void close(const Status& why) override;
    Status expose(Exposure& exposure, const memory::Place& place, const void* address, size_t length,
                  memory::Access access) override;
    void end_access(Exposure& exposure) override;
    const std::string& peer() const override { return peer_; }
    bool carries_data_inline() const override { return false; }
    size_t message_limit() const override { return message_limit_; }
    unsigned queues() const override { return static_cast<unsigned>(pairs_.size()); }
    bool has_windows() const { return domain_->limits().windows; }

  private:
    struct Last : Task {
        VerbsConnection* connection = nullptr;
    };
    struct KeepAlive : Timer {
        VerbsConnection* connection = nullptr;
    };

    VerbsConnection(VerbsLane& lane, Owner& owner, CmId id);
    Status set_up(VerbsDomains& domains, const VerbsOptions& options);
    Status make_pairs(unsigned queues);
    Status start_extra_pair(ibv_qp* pair, uint32_t peer_number, uint32_t peer_psn, unsigned reads_answered,
                            unsigned reads_issued);
    Status start_extra_pairs(const wire::RdmaHandshake& peer, unsigned reads_answered, unsigned reads_issued);
    wire::RdmaHandshake own_handshake() const;
    void set_answer_time();
    void shorten_receiver_pause();
    Status receive_into(unsigned slot);
    void open();

    void on_cm_event(const CmEvent& event) override;
    void on_completions() override;
    void enqueue(Send& send) override;
    void add(Queued& work, unsigned queue);
    void post_all();
    bool poll();
    void completed(const ibv_wc& completion);
    void arrived(const ibv_wc& completion);
    void finish_work(Queued& work, const Status& status);
    void invalidated(uint32_t rkey);
    void keep_alive();

    VerbsWindow* take_window();
    void release(Exposure& exposure);
    void disconnect();
    void stop_pairs();
    void destroy_pairs();
    void finish_close();

    VerbsLane& lane_;
    std::string peer_;
    CmId id_;
    std::shared_ptr<VerbsDomain> domain_;
    std::unique_ptr<VerbsMessages> messages_;
    ibv_cq* completions_ = nullptr;
    ibv_srq* arrivals_ = nullptr;
    std::vector<std::unique_ptr<VerbsQueuePair>> pairs_;  // the first one's is the id's
    unsigned inline_bytes_ = 0;
    uint32_t first_psn_ = 0;
    size_t message_limit_ = VerbsMessages::slot_size;
    unsigned next_queue_ = 0;
    bool polling_ = false;

    std::vector<std::unique_ptr<VerbsWindow>> windows_;
    std::vector<Exposure*> exposures_;  // that are not over

    struct Credit : Send {
        bool busy = false;
    };
    KeepAlive keep_alive_;
    Credit credit_;
    bool sent_something_ = false;
    bool established_ = false;  // both sides know of the connection
    bool disconnecting_ = false;

    Status why_;
    Last last_task_;
};

}  // namespace fabric::xds::transport
