#include "xds/memory/cuda_stream.h"

#include <new>
#include <utility>

namespace fabric::xds::memory {
namespace {

constexpr unsigned host_portable = 1, host_mapped = 2;
constexpr unsigned wait_for_at_least = 0;  // cyclic: the number may wrap around

}  // namespace

// Stands in the thread's queue for a piece of work, and tells the stream when that is over.
struct CudaStream::Job : StreamWork {
    void run() override {
        StreamWork& mine = *work;
        uint32_t mine_number = number;
        CudaStream& owner = *stream;
        owner.jobs_.give_back(*this);
        mine.run();
        owner.word_->store(mine_number, std::memory_order_release);
    }
    CudaStream* stream = nullptr;
    StreamWork* work = nullptr;
    uint32_t number = 0;
    Job* next_free = nullptr;
};

CudaStream::CudaStream(const CudaDriver& driver, CuStream native, std::unique_ptr<ThreadStream> thread)
    : driver_(driver), native_(native), thread_(std::move(thread)) {}

Result<std::unique_ptr<WorkStream>> CudaStream::open(const CudaDriver& driver, CuStream native) {
    Result<std::unique_ptr<ThreadStream>> thread = ThreadStream::start();
    if (!thread.ok()) return thread.status();
    std::unique_ptr<CudaStream> stream(new CudaStream(driver, native, std::move(*thread)));
    FABRIC_RETURN_IF_ERROR(stream->set_up());
    return std::unique_ptr<WorkStream>(std::move(stream));
}

Status CudaStream::set_up() {
    CuContext context = nullptr;
    CuResult result =
        native_ != nullptr ? driver_.stream_context(native_, &context) : driver_.current_context(&context);
    if (result == 0 && context == nullptr) result = driver_.primary_context(&context, 0);
    if (result != 0) return driver_.failed(result);
    CurrentContext current(driver_, context);
    void* memory = nullptr;
    result = current.result();
    if (result == 0) result = driver_.allocate_host(&memory, sizeof(uint32_t), host_portable | host_mapped);
    if (result != 0) return driver_.failed(result);
    word_ = new (memory) std::atomic<uint32_t>(0);
    result = driver_.host_device_pointer(&word_on_device_, memory, 0);
    return result == 0 ? Status() : driver_.failed(result);
}

CudaStream::~CudaStream() {
    thread_.reset();
    if (word_ != nullptr) driver_.free_host(word_);
}

// On a thread of CUDA's, where nothing may wait and none of its functions be called.
void CudaStream::turn_has_come(void* job) {
    auto* mine = static_cast<Job*>(job);
    (void)mine->stream->thread_->enqueue(*mine);  // refused only after stop(), which waits for this
}

Status CudaStream::enqueue(StreamWork& work) {
    std::lock_guard lock(mutex_);
    if (stopped_) return {Code::unavailable, ECANCELED, "the stream was closed"};
    int capturing = 0;
    if (CuResult result = driver_.stream_is_capturing(native_, &capturing); result != 0) return driver_.failed(result);
    if (capturing != 0)
        return {Code::invalid, ENOTSUP, "the CUDA stream records a graph: requests cannot be part of one"};
    if (driver_.wait_value == nullptr) return now(work);
    Job& job = jobs_.take();
    job.stream = this;
    job.work = &work;
    job.number = ++last_;
    if (CuResult result = driver_.launch_host_function(native_, &turn_has_come, &job); result != 0) {
        --last_;
        jobs_.give_back(job);
        return driver_.failed(result);
    }
    CuResult result = driver_.wait_value(native_, word_on_device_, last_, wait_for_at_least);
    if (result == 0) return {};
    // The stream would not wait: the caller does, and so gives it nothing before the work is over.
    FABRIC_RETURN_IF_ERROR(wait_for_stream());
    return thread_->synchronize();
}

Status CudaStream::now(StreamWork& work) {
    FABRIC_RETURN_IF_ERROR(wait_for_stream());
    FABRIC_RETURN_IF_ERROR(thread_->enqueue(work));
    return thread_->synchronize();
}

Status CudaStream::wait_for_stream() {
    CuResult result = driver_.synchronize_stream(native_);
    return result == 0 ? Status() : driver_.failed(result);
}

Status CudaStream::synchronize() {
    if (thread_->is_own_thread()) return thread_->synchronize();  // says that this cannot be
    FABRIC_RETURN_IF_ERROR(wait_for_stream());
    return thread_->synchronize();
}

Status CudaStream::stop() {
    if (thread_->is_own_thread()) return thread_->stop();
    {
        std::lock_guard lock(mutex_);
        stopped_ = true;
    }
    FABRIC_RETURN_IF_ERROR(wait_for_stream());
    return thread_->stop();
}

}  // namespace fabric::xds::memory
