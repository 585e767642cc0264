// One queue pair of a connection: turns what is queued on it into work requests, in order, posted in chains of which
// the last and every 16th is signalled.
//
// A message's data is written before the message on the same queue pair, which delivers in order (InfiniBand
// specification, volume 1, 9.5 and 9.7.5.1: the peer sees a SEND when all RDMA WRITEs before it are placed), so a
// reply says that every transfer of its request is complete. What is fetched is there when its last READ has completed.
#pragma once

#include <infiniband/verbs.h>

#include "xds/transport/connection.h"
#include "xds/transport/verbs/verbs_domain.h"
#include "xds/transport/verbs/verbs_messages.h"

namespace fabric::xds::transport {

class VerbsQueuePair {
  public:
    static constexpr unsigned depth = 256;  // work requests in the queue
    static constexpr unsigned signal_every = 16;

    struct Surroundings {
        VerbsDomain* domain = nullptr;
        VerbsMessages* messages = nullptr;
        unsigned inline_bytes = 0;  // that a work request can carry itself
    };
    // `number`: its place in the connection. The pair belongs to the connection.
    VerbsQueuePair(ibv_qp* pair, unsigned number, const Surroundings& around)
        : pair_(pair), number_(number), around_(around) {}

    ibv_qp* pair() const { return pair_; }
    void add(Queued& work);
    bool waiting() const { return first_waiting_ != nullptr; }
    // Posts what there is room for. An error ends the connection.
    Status post();
    // The work request of that id and all before it are done.
    void completed(uint64_t id) { done_ = id + 1; }
    // The next one that is complete, in order; null: none.
    Queued* take_completed();
    // The next one, complete or not: when the queue pair is gone.
    Queued* take_any();

  private:
    enum class Appended { all, no_room, error };
    struct Chain;

    bool has_room() const { return next_ - done_ < depth; }
    Appended append(Queued& work, Chain& chain);
    Appended append_message(Send& send, Chain& chain);
    Appended append_data(Queued& work, std::span<const iovec> memory, std::span<const wire::Segment> segments,
                         size_t length, ibv_wr_opcode opcode, Chain& chain);
    bool append_binding(Send& send, Chain& chain);
    bool append_invalidation(Exposure& exposure, Chain& chain);
    ibv_send_wr* request(Chain& chain, Queued& work);
    bool flush(Chain& chain);

    ibv_qp* const pair_;
    const unsigned number_;
    const Surroundings around_;
    // Work requests are numbered: next_ is the next one's, those below done_ are complete.
    uint64_t next_ = 0, done_ = 0;
    Queued* first_waiting_ = nullptr;
    Queued* last_waiting_ = nullptr;
    Queued* first_posted_ = nullptr;
    Queued* last_posted_ = nullptr;
    Status problem_;
};

}  // namespace fabric::xds::transport
