#include "xds/transport/verbs/verbs_queue_pair.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "xds/transport/verbs/gather.h"
#include "xds/transport/verbs/verbs_window.h"

namespace fabric::xds::transport {

// Work requests that are posted by one call.
struct VerbsQueuePair::Chain {
    static constexpr unsigned most = 32;
    static constexpr unsigned parts_each = 8;
    std::array<ibv_send_wr, most> requests;
    std::array<std::array<ibv_sge, parts_each>, most> parts;
    unsigned count = 0;
};

namespace {

void push(Queued*& first, Queued*& last, Queued& work) {
    work.next = nullptr;
    (first == nullptr ? first : last->next) = &work;
    last = &work;
}

Queued* pop(Queued*& first, Queued*& last) {
    Queued* work = first;
    if (work == nullptr) return nullptr;
    first = work->next;
    if (first == nullptr) last = nullptr;
    return work;
}

size_t length_of(std::span<const iovec> memory) {
    size_t length = 0;
    for (const iovec& part : memory) length += part.iov_len;
    return length;
}

std::span<const iovec> parts_of(const iovec* iov, int count) { return {iov, static_cast<size_t>(count)}; }

}  // namespace

void VerbsQueuePair::add(Queued& work) {
    work.access_given = false;
    work.slot = -1;
    work.moved = 0;
    push(first_waiting_, last_waiting_, work);
}

Queued* VerbsQueuePair::take_completed() {
    if (first_posted_ == nullptr || first_posted_->last >= done_) return nullptr;
    return pop(first_posted_, last_posted_);
}

Queued* VerbsQueuePair::take_any() {
    Queued* work = pop(first_posted_, last_posted_);
    return work != nullptr ? work : pop(first_waiting_, last_waiting_);
}

Status VerbsQueuePair::post() {
    Chain chain;
    while (first_waiting_ != nullptr) {
        Appended appended = append(*first_waiting_, chain);
        if (appended == Appended::error) return problem_;
        if (appended == Appended::no_room) break;
        push(first_posted_, last_posted_, *pop(first_waiting_, last_waiting_));
    }
    return flush(chain) ? Status() : problem_;
}

bool VerbsQueuePair::flush(Chain& chain) {
    if (chain.count == 0) return true;
    for (unsigned i = 0; i + 1 < chain.count; ++i) chain.requests[i].next = &chain.requests[i + 1];
    // Whatever comes next, this much will be told of.
    chain.requests[chain.count - 1].send_flags |= IBV_SEND_SIGNALED;
    chain.count = 0;
    ibv_send_wr* bad = nullptr;
    int error = ibv_post_send(pair_, chain.requests.data(), &bad);
    if (error != 0) problem_ = Status::from_errno(error, "RDMA work request");
    return error == 0;
}

// A fresh work request of the chain; null: no room in the queue pair, or an error.
ibv_send_wr* VerbsQueuePair::request(Chain& chain, Queued& work) {
    if (chain.count == Chain::most && !flush(chain)) return nullptr;
    if (!has_room()) return nullptr;
    ibv_send_wr& fresh = chain.requests[chain.count];
    fresh = {};
    fresh.wr_id = next_;
    fresh.sg_list = chain.parts[chain.count].data();
    if (next_ % signal_every == 0) fresh.send_flags = IBV_SEND_SIGNALED;
    work.last = next_++;
    ++chain.count;
    return &fresh;
}

VerbsQueuePair::Appended VerbsQueuePair::append(Queued& work, Chain& chain) {
    switch (work.kind) {
        case Queued::Kind::message:
            return append_message(static_cast<Send&>(work), chain);
        case Queued::Kind::fetch: {
            auto& fetch = static_cast<Fetch&>(work);
            auto memory = parts_of(fetch.iov, fetch.iov_count);
            return append_data(fetch, memory, fetch.segments, length_of(memory), IBV_WR_RDMA_READ, chain);
        }
        case Queued::Kind::end_of_access:
            if (append_invalidation(static_cast<Exposure&>(work), chain)) return Appended::all;
            break;
    }
    return problem_.ok() ? Appended::no_room : Appended::error;
}

VerbsQueuePair::Appended VerbsQueuePair::append_data(Queued& work, std::span<const iovec> memory,
                                                     std::span<const wire::Segment> segments, size_t length,
                                                     ibv_wr_opcode opcode, Chain& chain) {
    auto failed = [&](Status why) {
        problem_ = std::move(why);
        return Appended::error;
    };
    unsigned most = std::min(around_.domain->limits().parts, Chain::parts_each);
    while (work.moved < length) {
        std::array<iovec, Chain::parts_each> parts;
        Cut next = cut(memory, segments, work.moved, length, std::span(parts).first(most));
        if (next.length == 0) return failed({Code::invalid, EINVAL, "RDMA transfer past the end of its memory"});
        ibv_send_wr* fresh = request(chain, work);
        if (fresh == nullptr) return problem_.ok() ? Appended::no_room : Appended::error;
        bool carried = opcode == IBV_WR_RDMA_WRITE && next.length <= around_.inline_bytes;
        fresh->opcode = opcode;
        fresh->num_sge = static_cast<int>(next.parts);
        fresh->wr.rdma.remote_addr = next.address;
        fresh->wr.rdma.rkey = next.rkey;
        if (carried) fresh->send_flags |= IBV_SEND_INLINE;
        for (unsigned i = 0; i < next.parts; ++i) {
            Result<uint32_t> key = carried ? Result<uint32_t>(0) : around_.domain->local_key(parts[i].iov_base);
            if (!key.ok()) return failed(key.status());
            fresh->sg_list[i] = {reinterpret_cast<uint64_t>(parts[i].iov_base), static_cast<uint32_t>(parts[i].iov_len),
                                 *key};
        }
        work.moved += next.length;
    }
    return Appended::all;
}

// The window is bound before the message that names it, on the same queue pair: they are processed in order.
bool VerbsQueuePair::append_binding(Send& send, Chain& chain) {
    VerbsWindow& window = *send.exposure->window;
    ibv_send_wr* fresh = request(chain, send);
    if (fresh == nullptr) return false;
    fresh->opcode = IBV_WR_BIND_MW;
    fresh->sg_list = nullptr;
    fresh->bind_mw.mw = window.window;
    fresh->bind_mw.rkey = window.rkey;
    fresh->bind_mw.bind_info.mr = window.region;
    fresh->bind_mw.bind_info.addr = window.address;
    fresh->bind_mw.bind_info.length = window.length;
    fresh->bind_mw.bind_info.mw_access_flags = window.rights;
    window.state = VerbsWindow::State::bound;
    window.current = window.rkey;
    send.access_given = true;
    return true;
}

bool VerbsQueuePair::append_invalidation(Exposure& exposure, Chain& chain) {
    ibv_send_wr* fresh = request(chain, exposure);
    if (fresh == nullptr) return false;
    fresh->opcode = IBV_WR_LOCAL_INV;
    fresh->sg_list = nullptr;
    fresh->invalidate_rkey = exposure.window->rkey;
    return true;
}

VerbsQueuePair::Appended VerbsQueuePair::append_message(Send& send, Chain& chain) {
    auto no_room = [&] { return problem_.ok() ? Appended::no_room : Appended::error; };
    if (send.exposure != nullptr && send.exposure->by_window && !send.access_given && !append_binding(send, chain))
        return no_room();
    Appended data = append_data(send, parts_of(send.iov, send.iov_count), send.segments, send.header.data_length,
                                IBV_WR_RDMA_WRITE, chain);
    if (data != Appended::all) return data;
    bool carried = send.bytes.size() <= around_.inline_bytes;
    if (!carried && send.slot < 0 && (send.slot = around_.messages->take()) < 0) return Appended::no_room;
    ibv_send_wr* fresh = request(chain, send);
    if (fresh == nullptr) return no_room();
    const std::byte* from = send.bytes.data();
    if (carried) {
        fresh->send_flags |= IBV_SEND_INLINE;
    } else {
        std::memcpy(around_.messages->at(static_cast<unsigned>(send.slot)), from, send.bytes.size());
        from = around_.messages->at(static_cast<unsigned>(send.slot));
    }
    bool invalidates = send.invalidate != 0 && around_.domain->limits().invalidates;
    fresh->opcode = invalidates ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND;
    if (invalidates) fresh->invalidate_rkey = send.invalidate;
    fresh->num_sge = 1;
    fresh->sg_list[0] = {reinterpret_cast<uint64_t>(from), static_cast<uint32_t>(send.bytes.size()),
                         around_.messages->key()};
    return Appended::all;
}

}  // namespace fabric::xds::transport
