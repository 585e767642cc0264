#include "xds/client/queue.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "xds/client/local.h"

namespace fabric::xds::client {

Queue::Queue(std::shared_ptr<Context> context, unsigned depth) : context_(std::move(context)) {
    for (unsigned i = 0; i < depth; ++i) {
        slots_.push_back(std::make_unique<Slot>());
        Slot& slot = *slots_.back();
        slot.queue = this;
        slot.data.slot = slot.flush.slot = &slot;
        slot.next = free_;
        free_ = &slot;
    }
}

Queue::~Queue() {
    context_->on_reactor([&] {
        for (auto& slot : slots_)
            if (slot->in_progress) {
                Operation& operation = slot->is_flush ? static_cast<Operation&>(slot->flush) : slot->data;
                context_->cancel(operation);
            }
    });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return in_progress_ == 0; });
}

bool Queue::submit(const xds_io& io, std::shared_ptr<File> file) {
    Slot* slot = nullptr;
    {
        std::lock_guard lock(mutex_);
        if (free_ == nullptr) return false;
        slot = free_;
        free_ = slot->next;
        ++in_progress_;
    }
    slot->completion = {};
    slot->completion.cookie = io.cookie;
    slot->file = std::move(file);
    start(*slot, io);
    return true;
}

void Queue::start(Slot& slot, const xds_io& io) {
    auto refuse = [&](const Status& why) { complete(slot, -why.errno_value(), XDS_PATH_NONE, why.message()); };
    if (slot.file == nullptr) return refuse({Code::invalid, EBADF, "the file was closed, or never was one"});
    slot.is_flush = io.op == XDS_FSYNC;
    if (slot.is_flush) {
        if (slot.file->is_local()) {
            int result = ::fsync(slot.file->local_fd()) == 0 ? 0 : -errno;
            return complete(slot, result, XDS_PATH_LOCAL, "");
        }
        slot.flush.set(*slot.file);
    } else {
        if (io.op > XDS_FSYNC) return refuse({Code::invalid, EINVAL, "unknown operation"});
        if (io.offset > INT64_MAX || io.length > INT64_MAX - io.offset)
            return refuse({Code::invalid, EINVAL, "impossible offset or length"});
        auto direction = io.op == XDS_READ ? DataOperation::Direction::read : DataOperation::Direction::write;
        Result<Way> way = choose_way(*slot.file, io.buffer, io.length, direction);
        if (!way.ok()) return refuse(way.status());
        if (slot.file->is_local()) {
            int64_t result = transfer_locally(*slot.file, direction, io.buffer, io.length, io.offset, way->kind());
            return complete(slot, result, XDS_PATH_LOCAL, result < 0 ? "" : way->reason);
        }
        slot.data.set(*slot.file, direction, io.buffer, io.length, io.offset, *way);
    }
    Operation& operation = slot.is_flush ? static_cast<Operation&>(slot.flush) : slot.data;
    if (Status status = context_->submit(operation); !status.ok()) refuse(status);
}

void Queue::finished(Slot& slot) {
    slot.in_progress = false;
    Operation& operation = slot.is_flush ? static_cast<Operation&>(slot.flush) : slot.data;
    if (operation.failed())
        return complete(slot, -operation.status().errno_value(), XDS_PATH_NONE, operation.status().message());
    if (slot.is_flush) return complete(slot, 0, XDS_PATH_NONE, "");
    const PathBytes& moved = slot.data.moved();
    slot.completion.direct_bytes = moved[XDS_PATH_DIRECT];
    slot.completion.staged_bytes = moved[XDS_PATH_STAGED];
    slot.completion.tcp_bytes = moved[XDS_PATH_TCP];
    complete(slot, slot.data.result(), slot.data.path(), slot.data.way().reason);
}

void Queue::complete(Slot& slot, int64_t result, xds_path path, std::string_view reason) {
    xds_completion& completion = slot.completion;
    completion.result = result;
    completion.path = path;
    size_t length = std::min(reason.size(), sizeof completion.reason - 1);
    std::memcpy(completion.reason, reason.data(), length);
    completion.reason[length] = 0;
    if (result < 0 && length == 0) strerror_r(static_cast<int>(-result), completion.reason, sizeof completion.reason);
    if (result > 0 && path == XDS_PATH_LOCAL) completion.local_bytes = static_cast<uint64_t>(result);
    std::shared_ptr<File> last_use = std::move(slot.file);
    std::lock_guard lock(mutex_);
    slot.next = nullptr;
    (first_complete_ == nullptr ? first_complete_ : last_complete_->next) = &slot;
    last_complete_ = &slot;
    ++complete_;
    --in_progress_;
    changed_.notify_all();
}

int Queue::wait(xds_completion* completions, unsigned most, unsigned least, int timeout_ms) {
    std::unique_lock lock(mutex_);
    auto enough = [&] { return complete_ >= std::min(least, complete_ + in_progress_); };
    if (timeout_ms < 0)
        changed_.wait(lock, enough);
    else
        changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), enough);
    unsigned count = 0;
    for (; count < most && first_complete_ != nullptr; ++count) {
        Slot* slot = first_complete_;
        first_complete_ = slot->next;
        --complete_;
        // A caller of an earlier version has a shorter structure.
        uint32_t size = std::min<uint32_t>(completions[count].size, sizeof(xds_completion));
        slot->completion.size = size;
        std::memcpy(&completions[count], &slot->completion, size);
        slot->next = free_;
        free_ = slot;
    }
    return static_cast<int>(count);
}

unsigned Queue::cancel(uint64_t cookie) {
    unsigned asked = 0;
    context_->on_reactor([&] {
        for (auto& slot : slots_) {
            if (!slot->in_progress || slot->completion.cookie != cookie) continue;
            Operation& operation = slot->is_flush ? static_cast<Operation&>(slot->flush) : slot->data;
            context_->cancel(operation);
            ++asked;
        }
    });
    return asked;
}

}  // namespace fabric::xds::client
