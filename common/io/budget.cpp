#include "common/io/budget.h"

namespace fabric::io {

bool Budget::take(size_t bytes) {
    size_t used = used_.load();
    do {
        if (used != 0 && used + bytes > limit_) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes));
    return true;
}

bool Budget::try_acquire(size_t bytes) { return waiting_.load() == 0 && take(bytes); }

// The waiter is announced in waiting_ before used_ is looked at again, and release() lowers used_ before it looks at
// waiting_ (both sequentially consistent), so one of the two sides sees the other and no wake-up is lost.
bool Budget::acquire(Waiter& waiter) {
    if (try_acquire(waiter.bytes)) return true;
    std::lock_guard lock(mutex_);
    waiting_.fetch_add(1);
    if (first_ == nullptr && take(waiter.bytes)) {
        waiting_.fetch_sub(1);
        return true;
    }
    waiter.next = nullptr;
    (last_ != nullptr ? last_->next : first_) = &waiter;
    last_ = &waiter;
    return false;
}

Budget::Waiter* Budget::pop_granted() {
    std::lock_guard lock(mutex_);
    Waiter* waiter = first_;
    if (waiter == nullptr || !take(waiter->bytes)) return nullptr;
    first_ = waiter->next;
    if (first_ == nullptr) last_ = nullptr;
    waiting_.fetch_sub(1);
    return waiter;
}

void Budget::release(size_t bytes) {
    used_.fetch_sub(bytes);
    while (waiting_.load() != 0) {
        Waiter* waiter = pop_granted();
        if (waiter == nullptr) return;
        waiter->granted(*waiter);
    }
}

}  // namespace fabric::io
