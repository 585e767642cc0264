#include "common/io/lane.h"

#include <pthread.h>
#include <sys/eventfd.h>

#include <algorithm>

#include "common/fault.h"
#include "common/log.h"

namespace fabric::io {
namespace {

// Linux moves at most this much in one call (read(2)); the rest is continued.
constexpr size_t largest_call = size_t{1} << 30;
// An operation that the kernel answers with EAGAIN or EINTR, or a write that moves nothing, is repeated this often.
constexpr uint32_t most_retries = 1000;

std::string_view fault_point(Op op) {
    switch (op) {
        case Op::read:
            return "backing.read";
        case Op::write:
            return "backing.write";
        case Op::fsync:
        case Op::fdatasync:
            return "backing.fsync";
        case Op::fallocate:
            return "backing.fallocate";
    }
    return {};
}

bool is_transfer(Op op) { return op == Op::read || op == Op::write; }

}  // namespace

Result<std::unique_ptr<Lane>> Lane::start(unsigned index, unsigned depth, void (*finished)(Request&)) {
    std::unique_ptr<Lane> lane(new Lane(depth, finished));
    lane->wake_fd_.reset(::eventfd(0, EFD_CLOEXEC));
    if (!lane->wake_fd_) return Status::from_errno(errno, "eventfd for an I/O lane");
    std::promise<int> ready;
    std::future<int> result = ready.get_future();
    lane->thread_ = std::thread(&Lane::main, lane.get(), index, std::move(ready));
    if (int error = result.get()) {
        lane->thread_.join();
        return Status::from_errno(
            error,
            "io_uring_setup for an I/O lane (needs Linux 5.10 and io_uring allowed: see kernel.io_uring_disabled, "
            "the container's seccomp profile and RLIMIT_MEMLOCK)");
    }
    return lane;
}

Lane::~Lane() { stop(); }

void Lane::stop() {
    if (!thread_.joinable()) return;
    stopping_.store(true);
    if (uint64_t one = 1; ::write(wake_fd_.get(), &one, sizeof one) < 0)
        log::error("I/O lane: cannot be woken to stop: {}", strerror(errno));
    thread_.join();
}

void Lane::submit(Request& request) {
    Request* head = arrivals_.load(std::memory_order_relaxed);
    do {
        request.next = head;
    } while (!arrivals_.compare_exchange_weak(head, &request));
    if (asleep_.load() && asleep_.exchange(false)) {
        uint64_t one = 1;
        [[maybe_unused]] ssize_t written = ::write(wake_fd_.get(), &one, sizeof one);
    }
}

// The flags make completions arrive without interrupts and let the kernel skip its own locking; kernels before 6.1 do
// not know them.
int Lane::set_up_ring() {
    for (unsigned flags : {IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, 0U}) {
        io_uring_params parameters{};
        parameters.flags = flags;
        int error = -io_uring_queue_init_params(depth_ + 1, &ring_, &parameters);
        if (error != EINVAL) return error;
    }
    return EINVAL;
}

void Lane::main(unsigned index, std::promise<int> ready) {
    pthread_setname_np(pthread_self(), ("io_lane_" + std::to_string(index)).c_str());
    int error = set_up_ring();
    ready.set_value(error);
    if (error != 0) return;
    run();
    io_uring_queue_exit(&ring_);
}

void Lane::run() {
    for (;;) {
        take_arrivals();
        start_queued();
        arm_wake();
        if (stopping_.load() && idle() && arrivals_.load() == nullptr) return;
        // asleep_ is set before arrivals_ is looked at for the last time, and a submitter looks at it after its push.
        asleep_.store(true);
        bool more = arrivals_.load() != nullptr && first_ == nullptr;
        int result = more ? io_uring_submit_and_get_events(&ring_) : io_uring_submit_and_wait(&ring_, 1);
        asleep_.store(false);
        if (result < 0 && result != -EINTR && result != -EAGAIN && result != -EBUSY)
            log::error("I/O lane: io_uring_enter: {}", strerror(-result));
        reap();
    }
}

// The list is last in, first out; reversed, it goes to the end of the queue in the order of arrival.
void Lane::take_arrivals() {
    Request* head = arrivals_.exchange(nullptr);
    Request* in_order = nullptr;
    while (head != nullptr) {
        Request* next = head->next;
        head->next = in_order;
        in_order = head;
        head = next;
    }
    while (in_order != nullptr) {
        Request* next = in_order->next;
        queue(*in_order);
        in_order = next;
    }
}

void Lane::queue(Request& request) {
    request.next = nullptr;
    (last_ != nullptr ? last_->next : first_) = &request;
    last_ = &request;
}

void Lane::start_queued() {
    while (first_ != nullptr && in_kernel_ < depth_) {
        Request* request = first_;
        first_ = request->next;
        if (first_ == nullptr) last_ = nullptr;
        start(*request);
    }
}

void Lane::arm_wake() {
    if (wake_armed_) return;
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    if (sqe == nullptr) return;
    io_uring_prep_read(sqe, wake_fd_.get(), &wake_value_, sizeof wake_value_, 0);
    io_uring_sqe_set_data(sqe, nullptr);
    wake_armed_ = true;
}

void Lane::start(Request& request) {
    if (int error = fault::hit(fault_point(request.op))) return finish(request, -error);
    size_t length = request.length - request.done;
    if (is_transfer(request.op)) {
        size_t allowed = std::min(fault::limit(fault_point(request.op), length), largest_call);
        if (allowed < length && request.alignment != 0)
            allowed = std::max<size_t>(allowed & ~size_t{request.alignment - 1}, request.alignment);
        length = std::min(length, allowed);
        if (length == 0) return finish(request, 0);
    }
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    if (sqe == nullptr) return finish(request, -EAGAIN);  // cannot be: the ring holds depth_ operations and the wake-up
    switch (request.op) {
        case Op::read:
        case Op::write:
            prepare_transfer(sqe, request, length);
            break;
        case Op::fsync:
        case Op::fdatasync:
            io_uring_prep_fsync(sqe, request.fd, request.op == Op::fdatasync ? IORING_FSYNC_DATASYNC : 0);
            break;
        case Op::fallocate:
            io_uring_prep_fallocate(sqe, request.fd, request.flags, static_cast<off_t>(request.offset),
                                    static_cast<off_t>(request.length));
            break;
    }
    io_uring_sqe_set_data(sqe, &request);
    ++in_kernel_;
}

// Sets up the next `length` bytes or fewer: whole elements of the iovec when at the start of one, else what is left of
// the element, so that the caller's iovec is never changed.
size_t Lane::prepare_transfer(io_uring_sqe* sqe, Request& request, size_t length) {
    int index = 0;
    size_t skip = request.done;
    while (skip >= request.iov[index].iov_len) skip -= request.iov[index++].iov_len;
    const iovec* first = &request.iov[index];
    unsigned whole = 0;
    size_t total = 0;
    if (skip == 0) {
        unsigned left = std::min(request.iov_count - index, 1024);
        while (whole < left && total + first[whole].iov_len <= length) total += first[whole++].iov_len;
    }
    if (whole == 0) {
        request.part = {static_cast<char*>(first->iov_base) + skip, std::min(first->iov_len - skip, length)};
        first = &request.part;
        whole = 1;
        total = request.part.iov_len;
    }
    uint64_t offset = request.offset + request.done;
    if (request.op == Op::read)
        io_uring_prep_readv2(sqe, request.fd, first, whole, offset, request.flags);
    else
        io_uring_prep_writev2(sqe, request.fd, first, whole, offset, request.flags);
    return total;
}

void Lane::reap() {
    unsigned head = 0;
    unsigned seen = 0;
    io_uring_cqe* cqe = nullptr;
    io_uring_for_each_cqe(&ring_, head, cqe) {
        ++seen;
        auto* request = static_cast<Request*>(io_uring_cqe_get_data(cqe));
        if (request == nullptr) {
            wake_armed_ = false;
            continue;
        }
        --in_kernel_;
        finish(*request, cqe->res);
    }
    io_uring_cq_advance(&ring_, seen);
}

void Lane::finish(Request& request, int result) {
    if ((result == -EINTR || result == -EAGAIN) && ++request.retries < most_retries) return queue(request);
    if (result < 0)
        request.error = -result;
    else if (is_transfer(request.op) && has_more(request, static_cast<size_t>(result)))
        return queue(request);
    finished_(request);
}

// Accounts for `moved` bytes and says whether the rest is still to be moved.
bool Lane::has_more(Request& request, size_t moved) {
    size_t before = request.done;
    request.done += moved;
    if (request.done >= request.length) return false;
    if (moved == 0 && request.op == Op::read) return false;  // the end of the file
    size_t kept = request.done;
    if (request.alignment != 0) kept &= ~size_t{request.alignment - 1};
    if (kept > before) {
        request.done = kept;
        return true;
    }
    if (request.op == Op::read) return false;  // within the last block of a direct read
    request.done = before;
    if (++request.retries < most_retries) return true;
    request.error = EIO;
    return false;
}

}  // namespace fabric::io
