#include "xds/client/operation.h"

namespace fabric::xds::client {

void Waiting::end() {
    std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_one();
}

void Waiting::wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return over_; });
}

void Operation::fail(Status status) {
    if (outcome_.ok()) outcome_ = std::move(status);
}

void Operation::done() { waiting_->end(); }

}  // namespace fabric::xds::client
