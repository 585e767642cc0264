// The C interface: requests and calls in the order of a stream.
#include "xds/client/handles.h"
#include "xds/client/ordered.h"

using namespace fabric;
using namespace fabric::xds::client;

namespace {

int enqueue(const xds_file* file, DataOperation::Direction direction, const Ordered::Where& where,
            const xds_stream* stream) {
    return guarded([&] {
        Result<std::shared_ptr<OpenStream>> entry = find(registries().streams, stream);
        if (!entry.ok()) return failed(entry.status());
        Result<std::shared_ptr<OpenFile>> opened = find(registries().files, file);
        if (!opened.ok()) return failed(opened.status());
        if (where.memory == nullptr || where.length == nullptr || where.offset == nullptr ||
            where.memory_offset == nullptr || where.result == nullptr)
            return failed(EINVAL, "a request in a stream: a null pointer");
        Status status = (*entry)->ordered->transfer(std::move(*opened), direction, where);
        return status.ok() ? 0 : failed(status);
    });
}

}  // namespace

extern "C" {

int xds_stream_open(const char* kind, void* native, xds_stream** stream) {
    return guarded([&] {
        if (kind == nullptr || stream == nullptr) return failed(EINVAL, "xds_stream_open: no kind, or no result");
        const fabric::xds::memory::Kind* found = fabric::xds::memory::kind_named(kind);
        if (found == nullptr)
            return failed({Code::invalid, ENOTSUP, "no memory of kind " + std::string(kind) + " on this machine"});
        registries();  // before the thread: it installs the fork handlers
        Result<std::unique_ptr<fabric::xds::memory::WorkStream>> opened = found->open_stream(native);
        if (!opened.ok()) return failed(opened.status());
        auto entry = std::make_shared<OpenStream>();
        entry->ordered = std::make_unique<Ordered>(std::move(*opened));
        entry->fork = forks();
        *stream = registries().streams.add(std::move(entry));
        return 0;
    });
}

int xds_stream_close(xds_stream* stream) {
    return guarded([&] {
        std::shared_ptr<OpenStream> entry = registries().streams.get(stream);
        if (entry == nullptr) return failed(EBADF, "xds_stream_close: this handle was closed, or never was one");
        if (entry->fork != forks()) {
            // Its thread is the parent's.
            if (std::shared_ptr<OpenStream> taken = registries().streams.take(stream))
                new std::shared_ptr<OpenStream>(std::move(taken));
            return 0;
        }
        // Whoever found it before adds nothing after this; the last of them lets it go.
        if (Status status = entry->ordered->close(); !status.ok()) return failed(status);
        if (registries().streams.take(stream) == nullptr)
            return failed(EBADF, "xds_stream_close: this handle was closed by another thread");
        return 0;
    });
}

int xds_stream_call(xds_stream* stream, void (*call)(void*), void* argument) {
    return guarded([&] {
        Result<std::shared_ptr<OpenStream>> entry = find(registries().streams, stream);
        if (!entry.ok()) return failed(entry.status());
        if (call == nullptr) return failed(EINVAL, "xds_stream_call: no function");
        Status status = (*entry)->ordered->call(call, argument);
        return status.ok() ? 0 : failed(status);
    });
}

int xds_stream_sync(xds_stream* stream) {
    return guarded([&] {
        Result<std::shared_ptr<OpenStream>> entry = find(registries().streams, stream);
        if (!entry.ok()) return failed(entry.status());
        Status status = (*entry)->ordered->synchronize();
        return status.ok() ? 0 : failed(status);
    });
}

int xds_read_stream(xds_file* file, void* buffer, const size_t* length, const off_t* offset, const off_t* buffer_offset,
                    ssize_t* result, xds_stream* stream) {
    return enqueue(file, DataOperation::Direction::read,
                   {static_cast<char*>(buffer), length, offset, buffer_offset, result}, stream);
}

int xds_write_stream(xds_file* file, const void* buffer, const size_t* length, const off_t* offset,
                     const off_t* buffer_offset, ssize_t* result, xds_stream* stream) {
    return enqueue(file, DataOperation::Direction::write,
                   {static_cast<char*>(const_cast<void*>(buffer)), length, offset, buffer_offset, result}, stream);
}

}  // extern "C"
