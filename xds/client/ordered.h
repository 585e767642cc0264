// Requests and calls of a C caller in the order of a stream.
#pragma once

#include <memory>
#include <mutex>

#include "common/reused.h"
#include "xds/client/data_operation.h"
#include "xds/memory/work_stream.h"

namespace fabric::xds::client {

struct OpenFile;

// Thread safe.
class Ordered {
  public:
    explicit Ordered(std::unique_ptr<memory::WorkStream> stream) : stream_(std::move(stream)) {}
    // After close().
    ~Ordered() = default;
    Ordered(const Ordered&) = delete;
    Ordered& operator=(const Ordered&) = delete;

    // What a request moves, where the caller keeps it: looked at when the request's turn has come. `result` gets the
    // bytes, or a negative errno value, before what follows in the stream begins.
    struct Where {
        char* memory;
        const size_t* length;
        const off_t* offset;
        const off_t* memory_offset;
        ssize_t* result;
    };
    Status transfer(std::shared_ptr<OpenFile> file, DataOperation::Direction direction, const Where& where);
    Status call(void (*function)(void*), void* argument);
    // Waits for what was given before. The first error since the last synchronize().
    Status synchronize();
    // Waits for what was given before, and takes no more.
    Status close() { return stream_->stop(); }

  private:
    struct Request : memory::StreamWork {
        void run() override;
        Ordered* owner = nullptr;
        std::shared_ptr<OpenFile> file;  // null: a call
        DataOperation::Direction direction{};
        Where where{};
        void (*function)(void*) = nullptr;
        void* argument = nullptr;
        Request* next_free = nullptr;
    };
    Status enqueue(Request& request);
    Status move(const Request& request);
    void over(Request& request, Status status);

    Reused<Request> requests_;
    std::mutex mutex_;
    Status first_error_;
    std::unique_ptr<memory::WorkStream> stream_;  // gone before the requests are
};

}  // namespace fabric::xds::client
