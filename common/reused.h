// Objects that are used again and again, so that in steady state nothing is allocated.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace fabric {

// T has a member `T* next_free = nullptr`, which is this class's. Thread safe.
template <typename T>
class Reused {
  public:
    // One that nobody uses, as it was given back, or a new one. It stays where it is as long as this object lives.
    T& take() {
        std::lock_guard lock(mutex_);
        if (free_ != nullptr) return *std::exchange(free_, free_->next_free);
        return *all_.emplace_back(std::make_unique<T>());
    }
    // The caller does not look at it any more.
    void give_back(T& one) {
        std::lock_guard lock(mutex_);
        one.next_free = std::exchange(free_, &one);
    }

  private:
    std::mutex mutex_;
    std::vector<std::unique_ptr<T>> all_;
    T* free_ = nullptr;
};

}  // namespace fabric
