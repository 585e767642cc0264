#include "xds/client/ordered.h"

#include <new>
#include <utility>

#include "xds/client/handles.h"
#include "xds/client/transfer.h"

namespace fabric::xds::client {

Status Ordered::enqueue(Request& request) {
    request.owner = this;
    Status status = stream_->enqueue(request);
    if (!status.ok()) over(request, {});
    return status;
}

Status Ordered::transfer(std::shared_ptr<OpenFile> file, DataOperation::Direction direction, const Where& where) {
    Request& request = requests_.take();
    request.file = std::move(file);
    request.direction = direction;
    request.where = where;
    return enqueue(request);
}

Status Ordered::call(void (*function)(void*), void* argument) {
    Request& request = requests_.take();
    request.function = function;
    request.argument = argument;
    return enqueue(request);
}

void Ordered::Request::run() {
    if (file == nullptr) {
        function(argument);
        owner->over(*this, {});
        return;
    }
    Status status;
    try {
        status = owner->move(*this);
    } catch (const std::bad_alloc&) {
        status = {Code::unavailable, ENOMEM, "no memory"};
    }
    if (!status.ok()) *where.result = -status.errno_value();
    owner->over(*this, std::move(status));
}

Status Ordered::move(const Request& request) {
    const Where& where = request.where;
    off_t memory_offset = *where.memory_offset;
    if (memory_offset < 0) return Status::invalid("a negative offset into the memory");
    Result<size_t> moved = client::transfer(*request.file->file, request.direction, where.memory + memory_offset,
                                            *where.length, *where.offset);
    if (!moved.ok()) return moved.status();
    *where.result = static_cast<ssize_t>(*moved);
    return {};
}

void Ordered::over(Request& request, Status status) {
    // Outside the lock: it may be the file's last user.
    std::shared_ptr<OpenFile> last_use = std::exchange(request.file, nullptr);
    requests_.give_back(request);
    std::lock_guard lock(mutex_);
    if (first_error_.ok()) first_error_ = std::move(status);
}

Status Ordered::synchronize() {
    FABRIC_RETURN_IF_ERROR(stream_->synchronize());
    std::lock_guard lock(mutex_);
    return std::exchange(first_error_, {});
}

}  // namespace fabric::xds::client
