// What the C interface's functions share: the objects behind handles, and how an error reaches the caller.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>

#include "common/result.h"
#include "xds/client/context.h"
#include "xds/client/file.h"
#include "xds/client/include/xds.h"
#include "xds/client/ordered.h"
#include "xds/client/queue.h"
#include "xds/client/registry.h"

namespace fabric::xds::client {

// Counts forks: what was opened before one has no threads in the child.
unsigned forks();

struct Opened {
    std::shared_ptr<Context> context;
    unsigned fork = 0;
};
struct OpenFile {
    std::shared_ptr<File> file;
    unsigned fork = 0;
};
struct OpenQueue {
    std::shared_ptr<Queue> queue;
    unsigned fork = 0;
};
struct OpenStream {
    std::unique_ptr<Ordered> ordered;
    unsigned fork = 0;
};
struct Registered {
    std::shared_ptr<Context> context;
    unsigned fork = 0;
    uint64_t number = 0;  // 0: the kind itself tells allocations apart
    void* address = nullptr;
    memory::Allocation dmabuf;  // size 0: it is none
};

struct Registries {
    Registry<Opened, xds_ctx> contexts;
    Registry<OpenFile, xds_file> files;
    Registry<OpenQueue, xds_queue> queues;
    Registry<OpenStream, xds_stream> streams;
    Registry<Registered, xds_buf> buffers;

    // Across a fork nobody may be in the middle of them.
    void lock() {
        contexts.mutex().lock();
        files.mutex().lock();
        queues.mutex().lock();
        streams.mutex().lock();
        buffers.mutex().lock();
    }
    void unlock() {
        buffers.mutex().unlock();
        streams.mutex().unlock();
        queues.mutex().unlock();
        files.mutex().unlock();
        contexts.mutex().unlock();
    }
};

// Never destroyed: threads may still use it while the process exits.
Registries& registries();

// Keeps the text for this thread's xds_error(), and gives what the function returns.
int failed(const Status& status);
int failed(int error, const char* text);
const char* last_error_text();

// The object behind a handle, or why there is none.
template <typename T, typename Opaque>
Result<std::shared_ptr<T>> find(const Registry<T, Opaque>& registry, const Opaque* handle) {
    std::shared_ptr<T> found = registry.get(handle);
    if (found == nullptr) return Status(Code::invalid, EBADF, "this handle was closed, or never was one");
    if (found->fork != forks())
        return Status(Code::invalid, ENOTCONN,
                      "this was opened before fork(): the child has to open a context of its own");
    return found;
}

// Bad memory is the one thing that C++ may throw here.
template <typename F>
auto guarded(F&& call) -> decltype(call()) {
    try {
        return call();
    } catch (const std::bad_alloc&) {
        return failed(ENOMEM, "no memory");
    } catch (const std::exception& error) {
        return failed(EIO, error.what());
    }
}

// A caller of another version has a structure of another length: what it lacks is 0.
template <typename T>
Result<T> taken(const T* given) {
    T result{};
    if (given == nullptr) return result;
    if (given->size < sizeof(uint32_t) * 2 || given->size > 4096)
        return Status::invalid("a structure's size field is not set");
    std::memcpy(&result, given, std::min<size_t>(given->size, sizeof(T)));
    return result;
}

}  // namespace fabric::xds::client
