// WRITE. By which way the bytes go, and when they are durable:
//
// - UNSTABLE, the usual case: into the page cache on the calling thread. From memory that is page aligned (RDMA) and at
//   an aligned range that the cache does not hold, large writes go by O_DIRECT on a lane instead.
// - A file that is written back: onto the burst buffer's disks, on the calling thread; stable when its index has it.
// - Stable: by a lane with RWF_SYNC, so that the thread does not wait for the disk.
#include <fcntl.h>
#include <limits.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>

#include "common/fault.h"
#include "common/io/transfer_metrics.h"
#include "fsal_fabric/caller.h"
#include "fsal_fabric/data/commit.h"
#include "fsal_fabric/data/completion.h"
#include "fsal_fabric/data/descriptor.h"
#include "fsal_fabric/data/ops.h"
#include "fsal_fabric/data/residency.h"
#include "fsal_fabric/data/runtime.h"
#include "fsal_fabric/data/write_back.h"
#include "fsal_fabric/export.h"

namespace fabric::fsal {
namespace {

constexpr size_t block = 4096;
using io::Direction;
using io::Path;

struct Write {
    explicit Write(const Completion& for_call) : completion(for_call) {}
    Completion completion;
    FileIo io;
    uint64_t offset = 0;
    size_t length = 0;
    // As it was before the first byte was written: if it has changed since, writes of that time may be lost, and the
    // reply would carry the new one, by which the client could not tell.
    uint64_t verifier = 0;
    bool stable = false;
    size_t done = 0;
    io::Budget* budget = nullptr;
};

struct WriteCall : io::Request {
    explicit WriteCall(Write&& from) : write(std::move(from)) {}
    Write write;
    Path path = Path::page_cache;
};

// Ends the I/O. A write that moved something before it failed is a short write: the client sends the rest, and gets
// the error for that.
fsal_status_t settle(Write& write, int error) {
    if (write.done > 0) write.io.object().note_change();
    write.io.finish();
    fsal_io_arg& arguments = write.completion.arguments();
    arguments.io_amount = write.done;
    arguments.fsal_stable = write.stable;
    return error != 0 && write.done == 0 ? to_fsal_errno(error) : fsal_ok();
}

// Whether a write that is answered UNSTABLE has to be synced all the same.
bool must_sync(Write& write) {
    if (write.done == 0) return false;
    return !note_uncommitted(write.io.object(), write.io.fd()) || write_verifier() != write.verifier;
}

void lose(Write& write, int error) {
    change_write_verifier("stable write to file " + std::to_string(write.io.object().fileid) + ": " + strerror(error));
    write.done = 0;
}

// What a write can fail with before anything was put at risk.
bool refused(int error) {
    return error == ENOSPC || error == EDQUOT || error == EFBIG || error == EINVAL || error == EAGAIN;
}

void finish(WriteCall& call, int error) {
    std::unique_ptr<WriteCall> owner(&call);
    call.write.completion.elsewhere(settle(call.write, error));
}

void sync_done(io::Request& request) {
    auto& call = static_cast<WriteCall&>(request);
    if (request.error != 0) lose(call.write, request.error);
    call.write.stable = true;
    finish(call, request.error);
}

void submit(WriteCall& call, int fd, uint64_t offset, size_t length);

void write_done(io::Request& request) {
    auto& call = static_cast<WriteCall&>(request);
    Write& write = call.write;
    io::count_transfer(Direction::write, call.path, request.done);
    if (request.error == EINVAL && call.path == Path::direct && request.done == 0) {
        write.io.descriptor().direct_refused = true;
        call.path = Path::page_cache;
        call.alignment = 0;
        return submit(call, write.io.fd(), write.offset, write.length);
    }
    write.done = request.done;
    int error = request.error;
    if (write.stable) {
        if (error == 0) error = fault::hit("backing.fsync");
        if (error != 0 && !refused(error)) lose(write, error);
    } else if (must_sync(write)) {
        call.op = io::Op::fsync;
        call.fd = write.io.fd();
        call.complete = sync_done;
        return data_runtime().engine->submit(call);
    }
    finish(call, error);
}

void submit(WriteCall& call, int fd, uint64_t offset, size_t length) {
    fsal_io_arg& arguments = call.write.completion.arguments();
    call.op = io::Op::write;
    call.fd = fd;
    call.offset = offset;
    call.length = length;
    call.iov = arguments.iov;
    call.iov_count = arguments.iov_count;
    call.flags = call.write.stable ? RWF_SYNC : 0;
    call.budget = call.write.budget;
    call.complete = write_done;
    data_runtime().engine->submit(call);
}

bool all_aligned(const fsal_io_arg& arguments, uint64_t offset, size_t length) {
    bool aligned = offset % block == 0 && length % block == 0;
    for (int i = 0; i < arguments.iov_count && aligned; ++i)
        aligned = reinterpret_cast<uintptr_t>(arguments.iov[i].iov_base) % block == 0 &&
                  arguments.iov[i].iov_len % block == 0;
    return aligned;
}

// -1: through the page cache.
int direct_way(Write& write) {
    const DataConfig& config = data_runtime().config;
    if (config.direct_write_min == 0 || write.length < config.direct_write_min) return -1;
    if (!all_aligned(write.completion.arguments(), write.offset, write.length)) return -1;
    if (mostly_cached(write.io.fd(), write.offset, write.length)) return -1;
    return direct_descriptor(write.io.object(), write.io.descriptor());
}

// The rest of a range that a call wrote in part, piece by piece.
ssize_t write_piece(int fd, const fsal_io_arg& arguments, uint64_t offset, size_t skip, size_t most) {
    int i = 0;
    while (skip >= arguments.iov[i].iov_len) skip -= arguments.iov[i++].iov_len;
    const iovec& piece = arguments.iov[i];
    return pwrite(fd, static_cast<char*>(piece.iov_base) + skip, std::min(piece.iov_len - skip, most),
                  static_cast<off_t>(offset));
}

size_t total_length(const fsal_io_arg& arguments) {
    size_t total = 0;
    for (int i = 0; i < arguments.iov_count; ++i) total += arguments.iov[i].iov_len;
    return total;
}

// Into the page cache on this thread. 0 or a positive errno; write.done says how far it came.
int write_cached(Write& write) {
    fsal_io_arg& arguments = write.completion.arguments();
    int fd = write.io.fd();
    while (write.done < write.length) {
        if (int error = fault::hit("backing.write")) return error;
        size_t left = write.length - write.done;
        size_t most = fault::limit("backing.write", left);
        bool whole = write.done == 0 && most == left && total_length(arguments) == write.length &&
                     arguments.iov_count <= IOV_MAX;
        ssize_t moved = whole ? pwritev(fd, arguments.iov, arguments.iov_count, static_cast<off_t>(write.offset))
                              : write_piece(fd, arguments, write.offset + write.done, write.done, most);
        if (moved < 0 && errno == EINTR) continue;
        if (moved < 0) return errno;
        if (moved == 0) return EIO;
        write.done += static_cast<size_t>(moved);
    }
    return 0;
}

void start(Write& write) {
    // What root writes to a file with set-id bits takes the slow way, on which they stay.
    bool keeping = keeps_set_id_bits(write.io.fd());
    int direct = keeping ? -1 : direct_way(write);
    if (direct >= 0 || (write.stable && !keeping)) {
        auto* call = new WriteCall(std::move(write));
        if (direct >= 0) {
            call->path = Path::direct;
            call->alignment = block;
        }
        return submit(*call, direct >= 0 ? direct : call->write.io.fd(), call->write.offset, call->write.length);
    }
    int error = keeping ? write_as_caller(write.io.fd(), [&] { return write_cached(write); }) : write_cached(write);
    io::count_transfer(Direction::write, Path::page_cache, write.done);
    if (write.stable ? write.done > 0 : must_sync(write)) {
        if (int lost = sync_file(write.io.object(), write.io.fd())) {
            error = lost;
            write.done = 0;
        }
        write.stable = true;
    }
    const Completion completion = write.completion;
    completion.here(settle(write, error));
}

// False: the file is not written back.
bool write_held(Write& write) {
    fsal_io_arg& arguments = write.completion.arguments();
    Object& object = write.io.object();
    Result<size_t> held = hold_write(object, write.io.fd(), write.offset,
                                     {arguments.iov, static_cast<size_t>(arguments.iov_count)}, write.length);
    if (held.ok() && *held == 0) return false;
    const Completion completion = write.completion;
    if (!held.ok()) {
        completion.here(settle(write, held.status().errno_value()));
        return true;
    }
    write.done = *held;
    io::count_transfer(Direction::write, Path::burst_buffer, write.done);
    int error = 0;
    if (write.stable || write_verifier() != write.verifier) {
        std::optional<Status> committed = commit_held(object);
        error = committed ? committed->errno_value() : 0;
        // Lost, perhaps: the client that asked for a stable write does not look at the verifier.
        if (error == 0 && write_verifier() != write.verifier) error = EIO;
        if (error != 0) write.done = 0;
        write.stable = true;
    }
    completion.here(settle(write, error));
    return true;
}

}  // namespace

void write2(fsal_obj_handle* handle, bool bypass, fsal_async_cb done, fsal_io_arg* arguments, void* caller_data) {
    Write write(Completion(handle, done, arguments, caller_data));
    arguments->io_amount = 0;
    write.stable = arguments->fsal_stable;
    write.offset = arguments->offset;
    write.length = std::min(total_length(*arguments), arguments->io_request);
    if (write.offset > INT64_MAX || write.length > INT64_MAX - write.offset)
        return write.completion.here(fsalstat(ERR_FSAL_FBIG, EFBIG));
    fsal_status_t status = write.io.start(from(handle), arguments->state, FSAL_O_WRITE, bypass);
    if (FSAL_IS_ERROR(status)) return write.completion.here(status);
    write.verifier = write_verifier();
    write.budget = from(op_ctx->fsal_export).io_budget.get();
    if (!write_held(write)) start(write);
}

}  // namespace fabric::fsal
