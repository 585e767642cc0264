#include "xds/client/copier.h"

#include <pthread.h>

#include <system_error>
#include <utility>

namespace fabric::xds::client {

Copier::Copier(size_t count) {
    Copy* made = nullptr;
    for (size_t i = 0; i < count; ++i) {
        Copy& copy = copies_.take();
        copy.next = std::exchange(made, &copy);
    }
    while (Copy* copy = made) {
        made = copy->next;
        copies_.give_back(*copy);
    }
}

void Copier::stop() {
    {
        std::lock_guard lock(mutex_);
        ending_ = true;
        changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
}

Status Copier::add(transport::Reactor& reactor, Copy& copy) {
    if (!thread_.joinable()) {
        reactor_ = &reactor;
        try {
            thread_ = std::thread([this] { main(); });
        } catch (const std::system_error& error) {
            return Status::from_errno(error.code().value(), "a thread for copies");
        }
    }
    copy.status = {};
    copy.sum = 0;
    copy.next = nullptr;
    copy.over_.copy = &copy;
    copy.over_.run = [](transport::Task& task) {
        Copy& done = *static_cast<Copy::Over&>(task).copy;
        done.copied(done);
    };
    std::lock_guard lock(mutex_);
    (first_ == nullptr ? first_ : last_->next) = &copy;
    last_ = &copy;
    changed_.notify_one();
    return {};
}

void Copier::work(Copy& copy) {
    switch (copy.work) {
        case Copy::Work::in:
            copy.status = copy.kind->copy_in(copy.memory, copy.host, copy.length);
            break;
        case Copy::Work::out:
            copy.status = copy.kind->copy_out(copy.host, copy.memory, copy.length);
            break;
        case Copy::Work::settle:
            copy.status = copy.kind->settle_remote_writes(copy.memory, copy.length);
            break;
    }
    if (!copy.status.ok() || !copy.wants_sum) return;
    Result<uint32_t> sum = copy.kind->crc32c(0, copy.memory, copy.length);
    if (sum.ok())
        copy.sum = *sum;
    else
        copy.status = sum.status();
}

void Copier::main() {
    pthread_setname_np(pthread_self(), "xds_copy");
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [&] { return first_ != nullptr || ending_; });
        if (first_ == nullptr) return;
        Copy* copy = first_;
        first_ = copy->next;
        lock.unlock();
        work(*copy);
        reactor_->post(copy->over_);
        lock.lock();
    }
}

}  // namespace fabric::xds::client
