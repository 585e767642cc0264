#include "xds/target/workers.h"

#include <pthread.h>

#include <algorithm>
#include <string>

namespace fabric::xds::target {

Workers::Workers(unsigned threads) {
    for (unsigned i = 0; i < std::max(1U, threads); ++i) threads_.emplace_back([this, i] { main(i); });
}

Workers::~Workers() {
    {
        std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
}

void Workers::add(Work& work) {
    work.next = nullptr;
    {
        std::lock_guard lock(mutex_);
        (first_ == nullptr ? first_ : last_->next) = &work;
        last_ = &work;
    }
    changed_.notify_one();
}

void Workers::main(unsigned index) {
    pthread_setname_np(pthread_self(), ("xds_work_" + std::to_string(index)).c_str());
    for (;;) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return first_ != nullptr || stopping_; });
        if (first_ == nullptr) return;
        Work* work = first_;
        first_ = work->next;
        lock.unlock();
        work->run(*work);
    }
}

}  // namespace fabric::xds::target
