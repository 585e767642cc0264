#include "xds/transport/reactor.h"

#include <pthread.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cstring>

namespace fabric::xds::transport {
namespace {

constexpr unsigned ring_depth = 256;
constexpr std::chrono::milliseconds tick{10};

}  // namespace

Result<std::unique_ptr<Reactor>> Reactor::start(const std::string& name) {
    std::unique_ptr<Reactor> reactor(new Reactor);
    reactor->wake_fd_ = UniqueFd(eventfd(0, EFD_CLOEXEC));
    if (!reactor->wake_fd_) return Status::from_errno(errno, "eventfd of reactor " + name);
    reactor->name_ = name;
    std::promise<int> ready;
    std::future<int> set_up = ready.get_future();
    Reactor* self = reactor.get();
    reactor->thread_ = std::thread([self, promise = std::move(ready)]() mutable { self->main(std::move(promise)); });
    if (int error = set_up.get(); error != 0) {
        reactor->thread_.join();
        return Status::from_errno(error, "io_uring of reactor " + name +
                                             " (io_uring must not be disabled: see "
                                             "/proc/sys/kernel/io_uring_disabled)");
    }
    return reactor;
}

Reactor::~Reactor() {
    if (!thread_.joinable()) return;
    Task last;
    last.run = [](Task&) {};
    stopping_.store(true, std::memory_order_release);
    post(last);
    thread_.join();
}

void Reactor::post(Task& task) {
    Task* head = tasks_.load(std::memory_order_relaxed);
    do {
        task.next = head;
    } while (!tasks_.compare_exchange_weak(head, &task, std::memory_order_seq_cst, std::memory_order_relaxed));
    // Only who finds the reactor asleep writes, and only one does.
    if (asleep_.load(std::memory_order_seq_cst) && asleep_.exchange(false, std::memory_order_seq_cst)) {
        uint64_t one = 1;
        while (::write(wake_fd_.get(), &one, sizeof one) < 0 && errno == EINTR) {
        }
    }
}

int Reactor::set_up() {
    // The ring belongs to this thread; completions are then handled only when it asks for them.
    for (unsigned flags :
         {unsigned{IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN}, unsigned{IORING_SETUP_COOP_TASKRUN}, 0u}) {
        int error = -io_uring_queue_init(ring_depth, &ring_, flags);
        if (error == 0) return 0;
        if (error != EINVAL) return error;
    }
    return EINVAL;
}

void Reactor::main(std::promise<int> ready) {
    pthread_setname_np(pthread_self(), name_.substr(0, 15).c_str());
    int error = set_up();
    ready.set_value(error);
    if (error != 0) return;
    wake_.complete = [](Operation&, int) {};
    loop();
    io_uring_queue_exit(&ring_);
}

void Reactor::loop() {
    while (true) {
        run_tasks();
        std::chrono::nanoseconds until_next = run_timers();
        if (stopping_.load(std::memory_order_acquire) && in_kernel_ == 0 && tasks_.load() == nullptr) return;
        if (!wake_.busy) arm_wake();
        asleep_.store(true, std::memory_order_seq_cst);
        bool wait = tasks_.load(std::memory_order_seq_cst) == nullptr;
        io_uring_cqe* cqe = nullptr;
        __kernel_timespec timeout{until_next.count() / 1'000'000'000, until_next.count() % 1'000'000'000};
        if (wait)
            io_uring_submit_and_wait_timeout(&ring_, &cqe, 1, until_next.count() != 0 ? &timeout : nullptr, nullptr);
        else
            io_uring_submit_and_get_events(&ring_);
        asleep_.store(false, std::memory_order_relaxed);
        while (io_uring_peek_cqe(&ring_, &cqe) == 0) {
            auto* operation = static_cast<Operation*>(io_uring_cqe_get_data(cqe));
            int result = cqe->res;
            io_uring_cqe_seen(&ring_, cqe);
            if (operation == nullptr) continue;  // a cancellation's own completion
            operation->busy = false;
            if (operation != &wake_) --in_kernel_;
            operation->complete(*operation, result);
        }
    }
}

void Reactor::arm_wake() {
    io_uring_sqe* sqe = entry();
    io_uring_prep_read(sqe, wake_fd_.get(), &wake_value_, sizeof wake_value_, 0);
    io_uring_sqe_set_data(sqe, &wake_);
    wake_.busy = true;
}

// Oldest first: the list is a stack.
void Reactor::run_tasks() {
    Task* stack = tasks_.exchange(nullptr, std::memory_order_acquire);
    Task* ordered = nullptr;
    while (stack != nullptr) {
        Task* next = stack->next;
        stack->next = ordered;
        ordered = stack;
        stack = next;
    }
    while (ordered != nullptr) {
        Task* task = ordered;
        ordered = task->next;
        task->run(*task);
    }
}

// How long to sleep before the next one, at least a tick; 0: there is none.
std::chrono::nanoseconds Reactor::run_timers() {
    if (first_timer_ == nullptr) return {};
    auto now = std::chrono::steady_clock::now();
    while (first_timer_ != nullptr && first_timer_->deadline <= now) {
        Timer* timer = first_timer_;
        disarm(*timer);
        timer->expired(*timer);
    }
    if (first_timer_ == nullptr) return {};
    return std::max<std::chrono::nanoseconds>(tick, first_timer_->deadline - now);
}

// Sorted by deadline; most timers run equally long, so the place is near the end.
void Reactor::arm(Timer& timer) {
    if (timer.armed) disarm(timer);
    Timer* after = last_timer_;
    while (after != nullptr && after->deadline > timer.deadline) after = after->previous;
    timer.previous = after;
    timer.next = after == nullptr ? first_timer_ : after->next;
    (timer.previous == nullptr ? first_timer_ : timer.previous->next) = &timer;
    (timer.next == nullptr ? last_timer_ : timer.next->previous) = &timer;
    timer.armed = true;
}

void Reactor::disarm(Timer& timer) {
    if (!timer.armed) return;
    (timer.previous == nullptr ? first_timer_ : timer.previous->next) = timer.next;
    (timer.next == nullptr ? last_timer_ : timer.next->previous) = timer.previous;
    timer.armed = false;
}

io_uring_sqe* Reactor::entry() {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    while (sqe == nullptr) {
        io_uring_submit(&ring_);
        sqe = io_uring_get_sqe(&ring_);
    }
    return sqe;
}

void Reactor::cancel(Operation& operation) {
    if (!operation.busy) return;
    io_uring_sqe* sqe = entry();
    io_uring_prep_cancel(sqe, &operation, 0);
    io_uring_sqe_set_data(sqe, nullptr);
}

}  // namespace fabric::xds::transport
