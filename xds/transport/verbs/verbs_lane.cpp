#include "xds/transport/verbs/verbs_lane.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "xds/transport/verbs/verbs_domain.h"

namespace fabric::xds::transport {
namespace {

Status make_non_blocking(int fd, const char* what) {
    int flags = ::fcntl(fd, F_GETFL);
    if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) return Status::from_errno(errno, what);
    return {};
}

// Once a process, before the libraries are used. Kernels that copy pinned pages at fork() need nothing, and then the
// child is to have all memory (rdma-core 44 would not ask first); for the others the library keeps such pages out of
// the child. A child of a process that uses RDMA has no use of it: the libraries keep the parent's open devices, which
// the kernel refuses to other processes.
Status prepare_for_fork() {
    static std::mutex mutex;
    static pid_t user = 0;
    std::lock_guard lock(mutex);
    if (user == 0) {
        user = ::getpid();
        if (ibv_is_fork_initialized() != IBV_FORK_UNNEEDED) (void)ibv_fork_init();
    }
    if (user == ::getpid()) return {};
    return {Code::unavailable, ENOTSUP,
            "RDMA was in use in the process that this one was forked from, so it works only after exec()"};
}

}  // namespace

Result<std::unique_ptr<VerbsLane>> VerbsLane::open(Reactor& reactor) {
    FABRIC_RETURN_IF_ERROR(rdma_present());
    FABRIC_RETURN_IF_ERROR(prepare_for_fork());
    std::unique_ptr<VerbsLane> lane(new VerbsLane(reactor));
    lane->events_ = rdma_create_event_channel();
    if (lane->events_ == nullptr) return Status::from_errno(errno, "event channel of the RDMA connection manager");
    FABRIC_RETURN_IF_ERROR(make_non_blocking(lane->events_->fd, "event channel of the RDMA connection manager"));
    lane->event_watch_.fd = lane->events_->fd;
    lane->watch(lane->event_watch_);
    return lane;
}

VerbsLane::~VerbsLane() {
    for (auto& watch : completion_watches_) ibv_destroy_comp_channel(watch->channel);
    if (events_ != nullptr) rdma_destroy_event_channel(events_);
}

void VerbsLane::stop() {
    stopped_ = true;
    reactor_.cancel(event_watch_);
    for (auto& watch : completion_watches_) reactor_.cancel(*watch);
}

Result<ibv_comp_channel*> VerbsLane::completions(ibv_context* device) {
    for (auto& watch : completion_watches_)
        if (watch->channel->context == device) return watch->channel;
    ibv_comp_channel* channel = ibv_create_comp_channel(device);
    if (channel == nullptr) return Status::from_errno(errno, "completion channel");
    auto fresh = std::make_unique<Watch>();
    fresh->channel = channel;
    fresh->fd = channel->fd;
    completion_watches_.push_back(std::move(fresh));
    FABRIC_RETURN_IF_ERROR(make_non_blocking(channel->fd, "completion channel"));
    watch(*completion_watches_.back());
    return channel;
}

void VerbsLane::watch(Watch& watch) {
    watch.lane = this;
    watch.complete = [](Operation& operation, int) {
        auto& self = static_cast<Watch&>(operation);
        self.lane->ready(self);
    };
    reactor_.submit(watch, [&](io_uring_sqe* sqe) { io_uring_prep_poll_add(sqe, watch.fd, POLLIN); });
}

void VerbsLane::ready(Watch& ready) {
    if (stopped_) return;
    if (ready.channel == nullptr)
        take_events();
    else
        take_completions(ready.channel);
    if (!stopped_) watch(ready);
}

void VerbsLane::take_events() {
    rdma_cm_event* event = nullptr;
    while (!stopped_ && rdma_get_cm_event(events_, &event) == 0) {
        CmEvent copy;
        copy.type = event->event;
        copy.status = event->status;
        copy.id = event->id;
        copy.initiator_depth = event->param.conn.initiator_depth;
        copy.responder_resources = event->param.conn.responder_resources;
        copy.data_length = std::min<size_t>(event->param.conn.private_data_len, copy.data.size());
        if (event->param.conn.private_data == nullptr) copy.data_length = 0;
        if (copy.data_length != 0) std::memcpy(copy.data.data(), event->param.conn.private_data, copy.data_length);
        rdma_ack_cm_event(event);
        static_cast<CmHandler*>(copy.id->context)->on_cm_event(copy);
    }
}

void VerbsLane::take_completions(ibv_comp_channel* channel) {
    ibv_cq* queue = nullptr;
    void* context = nullptr;
    while (ibv_get_cq_event(channel, &queue, &context) == 0) {
        ibv_ack_cq_events(queue, 1);
        static_cast<CompletionHandler*>(context)->on_completions();
    }
}

}  // namespace fabric::xds::transport
