// Threads for calls that block. Their queue is bounded by the credits of those who fill it.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace fabric::xds::target {

// Embedded in its owner.
struct Work {
    void (*run)(Work&) = nullptr;
    Work* next = nullptr;
};

class Workers {
  public:
    explicit Workers(unsigned threads);
    // Runs what is queued first.
    ~Workers();
    // Any thread; first come, first served.
    void add(Work& work);

  private:
    void main(unsigned index);

    std::mutex mutex_;
    std::condition_variable changed_;
    Work* first_ = nullptr;
    Work* last_ = nullptr;
    bool stopping_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace fabric::xds::target
