// The RDMA side of a reactor: one event channel of the connection manager and one completion channel a device, shared
// by all connections of the lane, watched through the reactor's ring.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <array>
#include <memory>
#include <vector>

#include "xds/transport/reactor.h"

namespace fabric::xds::transport {

// What the connection manager told, taken out of its event so that the event can be given back first: an id cannot be
// destroyed while one of its events is held.
struct CmEvent {
    rdma_cm_event_type type;
    int status = 0;  // 0, a negative errno, or the reason of a refusal
    rdma_cm_id* id = nullptr;
    uint8_t initiator_depth = 0, responder_resources = 0;
    std::array<std::byte, 256> data{};
    size_t data_length = 0;
};

// The context of an rdma_cm_id points at one of these.
class CmHandler {
  public:
    virtual ~CmHandler() = default;
    virtual void on_cm_event(const CmEvent& event) = 0;
};

// The context of a completion queue points at one of these.
class CompletionHandler {
  public:
    virtual ~CompletionHandler() = default;
    // The queue has something, and asked for no further event yet.
    virtual void on_completions() = 0;
};

class VerbsLane {
  public:
    // On the reactor's thread, as is everything else but destruction.
    static Result<std::unique_ptr<VerbsLane>> open(Reactor& reactor);
    // Only after stop() and after the reactor has ended: it may hold the lane's operations until then.
    ~VerbsLane();
    VerbsLane(const VerbsLane&) = delete;
    VerbsLane& operator=(const VerbsLane&) = delete;

    // Watches no longer. Every connection must have ended.
    void stop();

    Reactor& reactor() const { return reactor_; }
    rdma_event_channel* events() const { return events_; }
    // The channel that completion queues of the device report to.
    Result<ibv_comp_channel*> completions(ibv_context* device);

  private:
    // A descriptor that the reactor waits for again and again.
    struct Watch : Operation {
        VerbsLane* lane = nullptr;
        int fd = -1;
        ibv_comp_channel* channel = nullptr;  // null: the connection manager's
    };

    explicit VerbsLane(Reactor& reactor) : reactor_(reactor) {}
    void watch(Watch& watch);
    void ready(Watch& watch);
    void take_events();
    void take_completions(ibv_comp_channel* channel);

    Reactor& reactor_;
    bool stopped_ = false;
    rdma_event_channel* events_ = nullptr;
    Watch event_watch_;
    std::vector<std::unique_ptr<Watch>> completion_watches_;  // one a device
};

}  // namespace fabric::xds::transport
