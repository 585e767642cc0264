// The C interface: queues of requests, and the batch of small files.
#include <algorithm>
#include <vector>

#include "xds/client/handles.h"
#include "xds/client/many_operation.h"

using namespace fabric;
using namespace fabric::xds::client;

extern "C" {

int xds_queue_create(xds_ctx* ctx, unsigned depth, xds_queue** queue) {
    return guarded([&] {
        Result<std::shared_ptr<Opened>> entry = find(registries().contexts, ctx);
        if (!entry.ok()) return failed(entry.status());
        if (queue == nullptr || depth == 0 || depth > 65536)
            return failed(EINVAL, "xds_queue_create: no result, or a depth outside of 1 to 65536");
        auto opened = std::make_shared<OpenQueue>();
        opened->queue = std::make_shared<Queue>((*entry)->context, depth);
        opened->fork = forks();
        *queue = registries().queues.add(std::move(opened));
        return 0;
    });
}

int xds_queue_destroy(xds_queue* queue) {
    return guarded([&] {
        std::shared_ptr<OpenQueue> entry = registries().queues.take(queue);
        if (entry == nullptr) return failed(EBADF, "xds_queue_destroy: this handle was closed, or never was one");
        if (entry->fork != forks()) new std::shared_ptr<OpenQueue>(std::move(entry));
        return 0;
    });
}

int xds_queue_submit(xds_queue* queue, const xds_io* ios, unsigned count) {
    return guarded([&] {
        Result<std::shared_ptr<OpenQueue>> entry = find(registries().queues, queue);
        if (!entry.ok()) return failed(entry.status());
        if (ios == nullptr && count > 0) return failed(EINVAL, "xds_queue_submit: no requests");
        const char* at = reinterpret_cast<const char*>(ios);
        for (unsigned i = 0; i < count; ++i) {
            // The caller's structures may be longer or shorter than ours.
            Result<xds_io> io = taken(reinterpret_cast<const xds_io*>(at));
            if (!io.ok()) return i > 0 ? static_cast<int>(i) : failed(io.status());
            std::shared_ptr<OpenFile> file = registries().files.get(io->file);
            bool usable =
                file != nullptr && file->fork == forks() && file->file->context() == (*entry)->queue->context();
            if (!(*entry)->queue->submit(*io, usable ? file->file : nullptr))
                return i > 0 ? static_cast<int>(i) : failed(EAGAIN, "xds_queue_submit: the queue is full");
            at += reinterpret_cast<const xds_io*>(at)->size;
        }
        return static_cast<int>(count);
    });
}

int xds_queue_wait(xds_queue* queue, xds_completion* completions, unsigned most, unsigned least, int timeout_ms) {
    return guarded([&] {
        Result<std::shared_ptr<OpenQueue>> entry = find(registries().queues, queue);
        if (!entry.ok()) return failed(entry.status());
        if ((completions == nullptr && most > 0) || least > most || most > INT32_MAX)
            return failed(EINVAL, "xds_queue_wait: fewer places than completions wanted");
        return (*entry)->queue->wait(completions, most, least, timeout_ms);
    });
}

int xds_queue_cancel(xds_queue* queue, uint64_t cookie) {
    return guarded([&] {
        Result<std::shared_ptr<OpenQueue>> entry = find(registries().queues, queue);
        if (!entry.ok()) return failed(entry.status());
        return (*entry)->queue->cancel(cookie) > 0 ? 0 : failed(ENOENT, "no request with that cookie is in progress");
    });
}

int xds_read_many(xds_ctx* ctx, xds_many* files, unsigned count) {
    return guarded([&] {
        Result<std::shared_ptr<Opened>> entry = find(registries().contexts, ctx);
        if (!entry.ok()) return failed(entry.status());
        if (count == 0) return 0;
        if (files == nullptr) return failed(EINVAL, "xds_read_many: no files");
        std::vector<const fabric::xds::memory::Kind*> kinds;
        for (unsigned i = 0; i < count; ++i) {
            if (files[i].size != sizeof(xds_many) || files[i].path == nullptr || *files[i].path == 0)
                return failed(EINVAL, "xds_read_many: an entry without path, or its size field is not set");
            Result<fabric::xds::memory::Place> place = fabric::xds::memory::locate(files[i].buffer, files[i].length);
            if (!place.ok()) return failed(place.status());
            kinds.push_back(place->kind);
        }
        Context& context = *(*entry)->context;
        ManyOperation operation(context, {files, count}, kinds);
        if (Status status = context.run(operation); !status.ok()) {
            // None of it counts: a server may have said anything of some of them before.
            for (xds_many& file : std::span(files, count)) {
                file.error = -status.errno_value();
                file.got = file.file_size = 0;
            }
            return failed(status);
        }
        auto wrong = std::count_if(files, files + count, [](const xds_many& file) { return file.error != 0; });
        return static_cast<int>(wrong);
    });
}

}  // extern "C"
