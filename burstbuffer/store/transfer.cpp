#include "burstbuffer/store/transfer.h"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <latch>
#include <thread>
#include <utility>

#include "common/fault.h"

namespace fabric::store {

uint64_t Transfers::now() {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    return static_cast<uint64_t>(time.tv_sec);
}

Transfers::~Transfers() {
    while (in_use_.load() != 0) usleep(1000);
}

Transfer& Transfers::take() {
    in_use_.fetch_add(1, std::memory_order_relaxed);
    std::lock_guard lock(mutex_);
    if (free_ != nullptr) return *std::exchange(free_, free_->next_free_);
    Transfer& made = *all_.emplace_back(std::make_unique<Transfer>());
    made.transfers_ = this;
    return made;
}

void Transfers::give_back(Transfer& transfer) {
    transfer.buffer.reset();
    transfer.keeps.reset();
    transfer.parts.clear();
    transfer.left = nullptr;
    transfer.release = nullptr;
    transfer.state_.store(Transfer::idle);
    {
        std::lock_guard lock(mutex_);
        transfer.next_free_ = std::exchange(free_, &transfer);
    }
    in_use_.fetch_sub(1);
}

void Transfers::start(Transfer& transfer) {
    transfer.iov = transfer.parts.data();
    transfer.iov_count = static_cast<int>(transfer.parts.size());
    transfer.complete = complete;
    auto phase = transfer.left != nullptr ? Transfer::running : Transfer::bound;
    transfer.state_.store(now() << Transfer::phase_bits | phase);
    engine_.submit(transfer);
}

void Transfers::complete(io::Request& request) {
    auto& transfer = static_cast<Transfer&>(request);
    Transfers& all = *transfer.transfers_;
    if (!fault::armed()) return all.end(transfer);
    std::string own = fmt::format("{}.{}", transfer.point, all.name_);
    int64_t held = std::max(fault::hang(transfer.point), fault::hang(own));
    if (held == 0) return all.end(transfer);
    std::thread([&all, &transfer, held] {
        std::this_thread::sleep_for(std::chrono::milliseconds(held));
        all.end(transfer);
    }).detach();
}

void Transfers::end(Transfer& transfer) {
    constexpr uint64_t mask = (1U << Transfer::phase_bits) - 1;
    uint64_t state = transfer.state_.load();
    for (;;) {
        if ((state & mask) == Transfer::gone) return come_back(transfer);
        // While it is being left, who leaves it does the rest.
        if (transfer.state_.compare_exchange_weak(state, Transfer::over)) break;
    }
    if ((state & mask) != Transfer::leaving) transfer.ended(transfer);
}

void Transfers::come_back(Transfer& transfer) {
    if (transfer.release != nullptr) transfer.release(transfer.released);
    left_.fetch_sub(1);
    give_back(transfer);
}

void Transfers::leave(unsigned seconds) {
    constexpr uint64_t mask = (1U << Transfer::phase_bits) - 1;
    std::vector<Transfer*> found;
    {
        std::lock_guard lock(mutex_);
        for (const auto& one : all_) {
            uint64_t state = one->state_.load();
            if ((state & mask) != Transfer::running) continue;
            if (now() - (state >> Transfer::phase_bits) <= seconds) continue;
            if (one->state_.compare_exchange_strong(state, Transfer::leaving)) found.push_back(one.get());
        }
    }
    for (Transfer* transfer : found) {
        left_.fetch_add(1);
        transfer->left(*transfer);
        uint64_t state = Transfer::leaving;
        if (!transfer->state_.compare_exchange_strong(state, Transfer::gone)) come_back(*transfer);
    }
}

Status Transfers::run(Transfer& transfer, std::string_view what) {
    struct Waiter {
        std::latch over{1};
        bool left = false;
    } waiter;
    transfer.owner = &waiter;
    transfer.ended = [](Transfer& ended) { static_cast<Waiter*>(ended.owner)->over.count_down(); };
    transfer.left = [](Transfer& left) {
        auto* waits = static_cast<Waiter*>(left.owner);
        waits->left = true;
        waits->over.count_down();
    };
    start(transfer);
    waiter.over.wait();
    if (waiter.left) return Status(Code::io, ETIMEDOUT, fmt::format("{}: the disk does not answer", what));
    Status status;
    bool moves = transfer.op == io::Op::read || transfer.op == io::Op::write;
    if (transfer.error != 0) {
        status = Status::from_errno(transfer.error, what);
    } else if (moves && transfer.done != transfer.length) {
        status = Status::from_errno(EIO, std::string(what) + ": cut short");
    }
    give_back(transfer);
    return status;
}

}  // namespace fabric::store
