// cuFile's batches: requests on files of the target go into a queue of libxds, all others are done at once.
#include <algorithm>
#include <deque>
#include <vector>

#include "xds/cufile/library.h"

namespace fabric::xds::cufile {
namespace {

constexpr unsigned most_requests = 4096;

class Batch {
  public:
    explicit Batch(unsigned capacity) : slots_(capacity) {
        if (::xds::Context* context = Library::get().context())
            queue_ = std::make_unique<::xds::Queue>(context->queue(capacity));
        for (unsigned slot = capacity; slot > 0; --slot) free_.push_back(slot - 1);
    }

    int submit(const CUfileIOParams_t* requests, unsigned count) {
        std::vector<std::shared_ptr<File>> files;
        for (unsigned i = 0; i < count; ++i) {
            const CUfileIOParams_t& request = requests[i];
            const auto& batch = request.u.batch;
            if (request.mode != CUFILE_BATCH || (request.opcode != CUFILE_READ && request.opcode != CUFILE_WRITE) ||
                batch.devPtr_base == nullptr || batch.file_offset < 0 || batch.devPtr_offset < 0)
                return CU_FILE_INVALID_VALUE;
            files.push_back(Library::get().file(request.fh));
            if (files.back() == nullptr) return CU_FILE_HANDLE_NOT_REGISTERED;
        }
        std::lock_guard lock(mutex_);
        // What was not fetched yet has its place too.
        if (count > free_.size()) return CU_FILE_BATCH_FULL;
        Clock clock;
        for (unsigned i = 0; i < count; ++i) start(requests[i], *files[i]);
        Library::get().statistics().batch_time(true, clock.microseconds());
        return CU_FILE_SUCCESS;
    }

    // Up to `most` as soon as there are `least`, or the time is over (< 0: never).
    std::vector<CUfileIOEvents_t> fetch(unsigned least, unsigned most, int timeout_ms) {
        collect(least, most, timeout_ms);
        std::vector<CUfileIOEvents_t> events;
        std::lock_guard lock(mutex_);
        while (!done_.empty() && events.size() < most) {
            unsigned slot = done_.front().slot;
            events.push_back({slots_[slot].cookie, done_.front().status, static_cast<size_t>(done_.front().result)});
            done_.pop_front();
            free_.push_back(slot);
        }
        return events;
    }

    void cancel() {
        if (queue_ == nullptr) return;
        for (unsigned slot = 0; slot < slots_.size(); ++slot) (void)queue_->cancel(slot);
    }

  private:
    struct Slot {
        void* cookie;  // the program's
        bool reads, is_local;
    };
    struct Done {
        unsigned slot;
        int status;
        int64_t result;
    };

    void start(const CUfileIOParams_t& request, File& file) {
        const auto& batch = request.u.batch;
        unsigned slot = free_.back();
        free_.pop_back();
        bool reads = request.opcode == CUFILE_READ;
        slots_[slot] = {request.cookie, reads, !file.remote};
        Library::get().statistics().count(Event::batch_enqueued, true);
        if (!file.remote) Library::get().statistics().count(Event::batch_enqueued_locally, true);
        if (file.remote && queue_ != nullptr) {
            char* memory = static_cast<char*>(batch.devPtr_base) + batch.devPtr_offset;
            auto offset = static_cast<uint64_t>(batch.file_offset);
            bool taken = reads ? queue_->read(*file.xds, memory, batch.size, offset, slot)
                               : queue_->write(*file.xds, memory, batch.size, offset, slot);
            if (taken) return;
        }
        ssize_t result = Library::get().move(reads, request.fh, batch.devPtr_base, batch.size, batch.file_offset,
                                             batch.devPtr_offset);
        finish(slot, result == -1 ? -errno : result);
    }

    void finish(unsigned slot, int64_t result) {
        Library::get().statistics().batch_moved(slots_[slot].reads, result, slots_[slot].is_local);
        done_.push_back(
            {slot, result >= 0 ? CUFILE_COMPLETE : (result == -ECANCELED ? CUFILE_CANCELED : CUFILE_FAILED), result});
    }

    void collect(unsigned least, unsigned most, int timeout_ms) {
        size_t there = 0;
        {
            std::lock_guard lock(mutex_);
            there = done_.size();
        }
        if (queue_ == nullptr || there >= most) return;
        unsigned missing = least > there ? least - static_cast<unsigned>(there) : 0;
        // Without the lock: others may submit while one waits.
        std::vector<::xds::Completion> fresh =
            queue_->wait(most - static_cast<unsigned>(there), missing, missing == 0 ? 0 : timeout_ms);
        std::lock_guard lock(mutex_);
        for (const ::xds::Completion& one : fresh) finish(static_cast<unsigned>(one.cookie), one.result);
    }

    std::mutex mutex_;
    std::unique_ptr<::xds::Queue> queue_;
    std::vector<Slot> slots_;  // the queue's cookies are their indices
    std::vector<unsigned> free_;
    std::deque<Done> done_;
};

struct Batches {
    std::mutex mutex;
    std::map<uintptr_t, std::shared_ptr<Batch>> all;  // by number: a stale handle finds nothing
    uintptr_t last = 0;
};
Batches& batches() {
    static auto* instance = new Batches;
    return *instance;
}

std::shared_ptr<Batch> find(CUfileBatchHandle_t handle) {
    std::lock_guard lock(batches().mutex);
    auto found = batches().all.find(reinterpret_cast<uintptr_t>(handle));
    return found == batches().all.end() ? nullptr : found->second;
}

int milliseconds(const timespec* time) {
    if (time == nullptr) return -1;
    int64_t total = time->tv_sec * int64_t{1000} + (time->tv_nsec + 999'999) / 1'000'000;
    return static_cast<int>(std::clamp<int64_t>(total, 0, INT32_MAX));
}

}  // namespace
}  // namespace fabric::xds::cufile

using namespace fabric::xds::cufile;

extern "C" {

CUfileError_t cuFileBatchIOSetUp(CUfileBatchHandle_t* batch, unsigned capacity) {
    return guarded([&] {
        if (batch == nullptr || capacity == 0 || capacity > most_requests) return int{CU_FILE_INVALID_VALUE};
        Library::get().open_driver_if_closed();
        auto made = std::make_shared<Batch>(capacity);
        std::lock_guard lock(batches().mutex);
        uintptr_t number = ++batches().last;
        batches().all.emplace(number, std::move(made));
        *batch = reinterpret_cast<CUfileBatchHandle_t>(number);
        Library::get().statistics().count(Event::batch_set_up, true);
        return int{CU_FILE_SUCCESS};
    });
}

CUfileError_t cuFileBatchIOSubmit(CUfileBatchHandle_t batch, unsigned count, CUfileIOParams_t* requests,
                                  unsigned flags) {
    CUfileError_t result = guarded([&] {
        std::shared_ptr<Batch> found = find(batch);
        if (found == nullptr || requests == nullptr || count == 0 || flags != 0) return int{CU_FILE_INVALID_VALUE};
        return found->submit(requests, count);
    });
    Library::get().statistics().count(Event::batch_submit, result.err == CU_FILE_SUCCESS);
    return result;
}

CUfileError_t cuFileBatchIOGetStatus(CUfileBatchHandle_t batch, unsigned least, unsigned* count,
                                     CUfileIOEvents_t* events, struct timespec* timeout) {
    return guarded([&] {
        std::shared_ptr<Batch> found = find(batch);
        if (found == nullptr || count == nullptr || events == nullptr || *count == 0 || least > *count)
            return int{CU_FILE_INVALID_VALUE};
        Clock clock;
        std::vector<CUfileIOEvents_t> fetched = found->fetch(least, *count, milliseconds(timeout));
        std::copy(fetched.begin(), fetched.end(), events);
        *count = static_cast<unsigned>(fetched.size());
        Library::get().statistics().count(Event::batch_complete, true);
        Library::get().statistics().batch_time(false, clock.microseconds());
        return int{CU_FILE_SUCCESS};
    });
}

CUfileError_t cuFileBatchIOCancel(CUfileBatchHandle_t batch) {
    return guarded([&] {
        std::shared_ptr<Batch> found = find(batch);
        if (found == nullptr) return int{CU_FILE_INVALID_VALUE};
        found->cancel();
        Library::get().statistics().count(Event::batch_cancel, true);
        return int{CU_FILE_SUCCESS};
    });
}

void cuFileBatchIODestroy(CUfileBatchHandle_t batch) {
    (void)guarded([&] {
        std::unique_lock lock(batches().mutex);
        auto found = batches().all.find(reinterpret_cast<uintptr_t>(batch));
        if (found == batches().all.end()) return CU_FILE_INVALID_VALUE;
        std::shared_ptr<Batch> last = std::move(found->second);
        batches().all.erase(found);
        lock.unlock();
        Library::get().statistics().count(Event::batch_destroy, true);
        last.reset();  // cancels what is in progress and waits for it
        return CU_FILE_SUCCESS;
    });
}

}  // extern "C"
