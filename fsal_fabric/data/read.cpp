// READ. Where the bytes come from, and by which way:
//
// - Memory of our own (TCP): a buffer of the pool, from the page cache. What the cache holds is copied on the calling
//   thread; the rest is read by a lane, with the kernel's read-ahead, while the thread goes on.
// - Memory that Ganesha hands over (RDMA: registered, page aligned): if the page cache holds most of the range, as
//   above; else O_DIRECT by a lane, straight into it. An unaligned range is read as the aligned range around it when
//   that fits, and the reply begins inside the buffer. Small reads go through the cache.
// - A file that the burst buffer has not drained yet: from there, and where it has nothing, as it lies in the backing
// file.
// - With a burst buffer: what the page cache does not hold is asked of it first. What it does not have, and does not
//   want, is read as above.
#include "burstbuffer/cache/read.h"

#include <fcntl.h>
#include <sys/uio.h>

#include <algorithm>

#include "burstbuffer/cache/file_backing.h"
#include "common/fault.h"
#include "common/fs/stat.h"
#include "common/io/transfer_metrics.h"
#include "fsal_fabric/data/completion.h"
#include "fsal_fabric/data/descriptor.h"
#include "fsal_fabric/data/ops.h"
#include "fsal_fabric/data/residency.h"
#include "fsal_fabric/data/runtime.h"
#include "fsal_fabric/data/write_back.h"
#include "fsal_fabric/export.h"
#include "fsal_fabric/request_memo.h"

namespace fabric::fsal {
namespace {

constexpr int resumed_with_buffer = 1;  // fsal_io_arg::fsal_resume
constexpr size_t block = 4096;          // a multiple of every device's logical block
using io::Direction;
using io::Path;

// One READ; moved to the heap when it has to wait.
struct Read {
    explicit Read(const Completion& for_call) : completion(for_call) {}
    Completion completion;
    FileIo io;
    uint64_t offset = 0;
    size_t length = 0;           // what there is to read: up to the end of the file as it was at the start
    uint64_t size = 0;           // of the file, at the start
    index::FileVersion version;  // then, too; for the burst buffer
    size_t done = 0;
    bool undrained = false;  // the backing store may lack something of the file
    io::Budget* budget = nullptr;
};

// A READ that waits for a buffer. It holds no descriptor meanwhile, or a client that takes no replies would keep others
// from closing or reopening the file.
struct WaitingRead : ReplyMemory::Ticket {
    explicit WaitingRead(const Completion& for_call) : completion(for_call) {}
    Completion completion;
};

struct ReadCall : io::Request {
    explicit ReadCall(Read&& from) : read(std::move(from)) {}
    Read read;
    iovec place{};    // where the operation in progress reads to
    size_t skew = 0;  // bytes of a direct read before the first wanted one
};

void release_buffer(void* buffer) { ReplyMemory::release(static_cast<io::BufferPool::Buffer*>(buffer)); }

void attach_buffer(fsal_io_arg& arguments, io::BufferPool::Buffer* buffer) {
    arguments.iov[0].iov_base = buffer->data();
    arguments.iov_release = release_buffer;
    arguments.release_data = buffer;
}

// Ganesha releases the buffer of a failed call on some paths only, so it is taken back here.
void detach_own_buffer(fsal_io_arg& arguments) {
    if (arguments.iov_release != release_buffer) return;
    release_buffer(arguments.release_data);
    arguments.iov_release = nullptr;
    arguments.release_data = nullptr;
    arguments.iov[0].iov_base = nullptr;
}

// Ends the I/O and fills in the result; `size` is the file's, to tell whether this was its end.
fsal_status_t settle(Read& read, int error, uint64_t size) {
    read.io.finish();
    fsal_io_arg& arguments = read.completion.arguments();
    if (error != 0 && read.done == 0) {
        detach_own_buffer(arguments);
        return to_fsal_errno(error);
    }
    arguments.io_amount = read.done;
    arguments.end_of_file = error == 0 && read.offset + read.done >= size;
    if (arguments.iov_count == 1) arguments.iov[0].iov_len = read.done;
    return fsal_ok();
}

// How much the caller's memory holds. Ganesha's length of the last piece is what the client asked for; the buffer
// behind it can be smaller.
size_t room(const fsal_io_arg& arguments) {
    size_t total = 0;
    for (int i = 0; i < arguments.iov_count; ++i) total += arguments.iov[i].iov_len;
    bool buffer_is_known = arguments.iov_count == 1 && arguments.iov[0].iov_base != nullptr &&
                           arguments.last_iov_buf_size != nullptr && *arguments.last_iov_buf_size != 0;
    return buffer_is_known ? std::min(total, *arguments.last_iov_buf_size) : total;
}

// Copies what the page cache holds from the start of the range on, if anything; the rest must be waited for. 0 or a
// positive errno.
int read_cached(Read& read, const iovec* iov, int count) {
    if (int error = fault::hit("backing.read")) return error;
    if (fault::limit("backing.read", read.length) < read.length) return 0;
    ssize_t got = preadv2(read.io.fd(), iov, count, static_cast<off_t>(read.offset), RWF_NOWAIT);
    if (got > 0) read.done = static_cast<size_t>(got);
    return 0;  // an error, if it was one, is met again by the lane
}

Result<uint64_t> size_of(int fd) {
    Result<struct stat> status = fs::stat_of(fd);
    if (!status.ok()) return status.status();
    return static_cast<uint64_t>(status->st_size);
}

void submit(ReadCall& call, int fd, uint64_t offset, size_t length) {
    call.op = io::Op::read;
    call.fd = fd;
    call.offset = offset;
    call.length = length;
    call.budget = call.read.budget;
    data_runtime().engine->submit(call);
}

void finish(ReadCall& call, int error) {
    std::unique_ptr<ReadCall> owner(&call);
    uint64_t size = call.read.size;
    if (call.read.done < call.read.length && error == 0) {
        if (Result<uint64_t> now = size_of(call.read.io.fd()); now.ok()) size = *now;
    }
    call.read.completion.elsewhere(settle(call.read, error, size));
}

void cached_done(io::Request& request) {
    auto& call = static_cast<ReadCall&>(request);
    call.read.done += request.done;
    io::count_transfer(Direction::read, Path::page_cache, request.done);
    finish(call, request.error);
}

// Reads what is still missing through the page cache.
void read_rest(ReadCall& call) {
    fsal_io_arg& arguments = call.read.completion.arguments();
    if (arguments.iov_count == 1) {
        call.place = {static_cast<char*>(arguments.iov[0].iov_base) + call.read.done,
                      call.read.length - call.read.done};
        call.iov = &call.place;
        call.iov_count = 1;
    } else {
        call.read.done = 0;
        call.iov = arguments.iov;
        call.iov_count = arguments.iov_count;
    }
    call.alignment = 0;
    call.complete = cached_done;
    submit(call, call.read.io.fd(), call.read.offset + call.read.done, call.read.length - call.read.done);
}

// A direct read that ended early met the end of the file, or the file grew, or the device moved less: what the file's
// size says should be there is read through the cache.
void direct_done(io::Request& request) {
    auto& call = static_cast<ReadCall&>(request);
    Read& read = call.read;
    fsal_io_arg& arguments = read.completion.arguments();
    if (request.error == EINVAL) {
        read.io.descriptor().direct_refused = true;
        return read_rest(call);
    }
    size_t useful = request.done > call.skew ? std::min(request.done - call.skew, read.length) : 0;
    read.done = useful;
    io::count_transfer(Direction::read, Path::direct, useful);
    arguments.iov[0].iov_base = static_cast<char*>(arguments.iov[0].iov_base) + call.skew;
    if (arguments.last_iov_buf_size != nullptr && *arguments.last_iov_buf_size >= call.skew)
        *arguments.last_iov_buf_size -= call.skew;
    if (request.error == 0 && useful < read.length) {
        Result<uint64_t> size = size_of(read.io.fd());
        if (size.ok() && read.offset + useful < *size) return read_rest(call);
    }
    finish(call, request.error);
}

bool start_direct(Read& read, size_t capacity) {
    fsal_io_arg& arguments = read.completion.arguments();
    const DataConfig& config = data_runtime().config;
    if (config.direct_read_min == 0 || read.length < config.direct_read_min || arguments.iov_count != 1) return false;
    if (reinterpret_cast<uintptr_t>(arguments.iov[0].iov_base) % block != 0) return false;
    size_t skew = read.offset % block;
    size_t span = (skew + read.length + block - 1) / block * block;
    if (span > capacity || mostly_cached(read.io.fd(), read.offset, read.length)) return false;
    int fd = direct_descriptor(read.io.object(), read.io.descriptor());
    if (fd < 0) return false;
    auto* call = new ReadCall(std::move(read));
    call->skew = skew;
    call->place = {arguments.iov[0].iov_base, span};
    call->iov = &call->place;
    call->iov_count = 1;
    call->alignment = block;
    call->complete = direct_done;
    submit(*call, fd, call->read.offset - skew, span);
    return true;
}

// The buffer is there, though memory may be short and the reply then, too: Ganesha calls read2 once more.
void buffer_granted(ReplyMemory::Ticket& ticket) {
    std::unique_ptr<WaitingRead> owner(&static_cast<WaitingRead&>(ticket));
    if (ticket.buffer == nullptr) return owner->completion.elsewhere(fsalstat(ERR_FSAL_DELAY, ENOMEM));
    fsal_io_arg& arguments = owner->completion.arguments();
    attach_buffer(arguments, ticket.buffer);
    arguments.iov[0].iov_len = ticket.granted_bytes;
    arguments.fsal_resume = resumed_with_buffer;
    owner->completion.elsewhere(fsal_ok());
}

void wait_for_buffer(Read& read, const void* connection) {
    read.io.finish();
    auto* waiting = new WaitingRead(read.completion);
    waiting->bytes = read.length;
    waiting->granted = buffer_granted;
    if (data_runtime().reply_memory->take(*waiting, connection)) buffer_granted(*waiting);
}

const void* connection_of_call() { return op_ctx->nfs_reqdata != nullptr ? op_ctx->nfs_reqdata->svc.rq_xprt : nullptr; }

int64_t nanoseconds(const statx_timestamp& time) { return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec; }

// The file's size and version at the start. 0 or a positive errno.
int find_size(Read& read) {
    if (const RequestMemo* known = RequestMemo::find(read.io.object())) {
        read.size = known->status.stx_size;
        read.version = {read.size, nanoseconds(known->status.stx_mtime), nanoseconds(known->status.stx_ctime)};
        return 0;
    }
    Result<struct stat> file = fs::stat_of(read.io.fd());
    if (!file.ok()) return file.status().errno_value();
    read.size = static_cast<uint64_t>(file->st_size);
    read.version = cache::version_of(*file);
    return 0;
}

// From the backing file system.
void read_plain(Read& read) {
    fsal_io_arg& arguments = read.completion.arguments();
    if (arguments.iov_release != release_buffer) {
        size_t capacity = arguments.last_iov_buf_size != nullptr ? *arguments.last_iov_buf_size : 0;
        if (start_direct(read, capacity != 0 ? capacity : arguments.iov[0].iov_len)) return;
    }
    iovec one{arguments.iov[0].iov_base, read.length};
    bool single = arguments.iov_count == 1;
    int error = read_cached(read, single ? &one : arguments.iov, single ? 1 : arguments.iov_count);
    io::count_transfer(Direction::read, Path::page_cache, read.done);
    if (error == 0 && read.done < read.length) return read_rest(*new ReadCall(std::move(read)));
    const Completion completion = read.completion;
    completion.here(settle(read, error, read.size));
}

// A READ that the burst buffer answers, or hands back.
struct BufferedRead : cache::Read {
    explicit BufferedRead(fsal::Read&& from) : read(std::move(from)) {}
    fsal::Read read;
};

// A disk that does not answer keeps the buffer that it was given, of our own memory: the reply gets another. False:
// there is none.
bool replace_left_buffer(BufferedRead& call) {
    if (!call.memory_left) return true;
    fsal_io_arg& arguments = call.read.completion.arguments();
    arguments.iov_release = nullptr;
    arguments.release_data = nullptr;
    arguments.iov[0].iov_base = nullptr;
    io::BufferPool::Buffer* buffer = data_runtime().reply_memory->replace(call.read.length);
    if (buffer != nullptr) attach_buffer(arguments, buffer);
    return buffer != nullptr;
}

fsal_status_t settle_buffered(BufferedRead& call) {
    call.read.done = call.bytes;
    io::count_transfer(Direction::read, Path::burst_buffer, call.bytes);
    int error = call.outcome == cache::Read::Outcome::failed ? call.status.errno_value() : 0;
    return settle(call.read, error, call.read.size);
}

// The one that this thread is just starting: it may finish before the call returns, within Ganesha's own call.
thread_local BufferedRead* starting = nullptr;

void buffered_done(cache::Read& finished) {
    auto& call = static_cast<BufferedRead&>(finished);
    if (starting == &call) {
        starting = nullptr;
        return;
    }
    std::unique_ptr<BufferedRead> owner(&call);
    if (!replace_left_buffer(call)) {
        call.read.io.finish();
        return call.read.completion.elsewhere(fsalstat(ERR_FSAL_DELAY, ENOMEM));
    }
    if (call.outcome == cache::Read::Outcome::passed) return read_rest(*new ReadCall(std::move(call.read)));
    const Completion completion = call.read.completion;
    completion.elsewhere(settle_buffered(call));
}

// By the burst buffer, or, where that does not have it, as without one.
void read_buffered(Read& read) {
    fsal_io_arg& arguments = read.completion.arguments();
    auto call = std::make_unique<BufferedRead>(std::move(read));
    BufferedRead& started = *call.release();
    started.file = from(started.read.completion.object()).id;
    started.version = started.read.version;
    started.offset = started.read.offset;
    started.size = started.read.length;
    started.to = static_cast<char*>(arguments.iov[0].iov_base);
    started.finished = buffered_done;
    // Memory that Ganesha hands over goes back when its request ends, so that cannot be left to a disk.
    if (arguments.iov_release == release_buffer) {
        started.release = release_buffer;
        started.released = arguments.release_data;
    }
    BufferedRead* outer = std::exchange(starting, &started);
    data_runtime().burst_buffer->cache().start(started);
    bool here = starting == nullptr;
    starting = outer;
    if (!here) return;
    call.reset(&started);
    if (call->outcome == cache::Read::Outcome::passed) return read_plain(call->read);
    const Completion completion = call->read.completion;
    completion.here(settle_buffered(*call));
}

// What is not drained from the burst buffer, the rest from the backing file system. Pieces of memory are filled one by
// one.
void read_from_both(Read& read) {
    fsal_io_arg& arguments = read.completion.arguments();
    Status status;
    for (int i = 0; i < arguments.iov_count && status.ok() && read.done < read.length; ++i) {
        size_t size =
            arguments.iov_count == 1 ? read.length : std::min(arguments.iov[i].iov_len, read.length - read.done);
        status = read_undrained(read.io.object(), read.io.fd(), read.offset + read.done, size,
                                static_cast<char*>(arguments.iov[i].iov_base));
        if (status.ok()) read.done += size;
    }
    io::count_transfer(Direction::read, Path::burst_buffer, read.done);
    const Completion completion = read.completion;
    completion.here(settle(read, status.errno_value(), read.size));
}

void start(Read& read) {
    fsal_io_arg& arguments = read.completion.arguments();
    if (arguments.iov[0].iov_base == nullptr) {
        const void* connection = connection_of_call();
        io::BufferPool::Buffer* buffer = data_runtime().reply_memory->try_take(read.length, connection);
        if (buffer == nullptr) return wait_for_buffer(read, connection);
        attach_buffer(arguments, buffer);
    }
    if (read.undrained) return read_from_both(read);
    bool buffered = data_runtime().burst_buffer != nullptr && arguments.iov_count == 1 &&
                    !mostly_cached(read.io.fd(), read.offset, read.length);
    buffered ? read_buffered(read) : read_plain(read);
}

}  // namespace

void read2(fsal_obj_handle* handle, bool bypass, fsal_async_cb done, fsal_io_arg* arguments, void* caller_data) {
    Read read(Completion(handle, done, arguments, caller_data));
    arguments->io_amount = 0;
    arguments->end_of_file = false;
    arguments->fsal_resume = 0;
    // READ_PLUS (RFC 7862 §15.10): clients fall back to READ.
    if (arguments->info != nullptr) return read.completion.here(fsalstat(ERR_FSAL_NOTSUPP, ENOTSUP));
    fsal_status_t status = read.io.start(from(handle), arguments->state, FSAL_O_READ, bypass);
    if (FSAL_IS_ERROR(status)) {
        detach_own_buffer(*arguments);
        return read.completion.here(status);
    }
    read.undrained = undrained(from(handle));
    if (int error = find_size(read)) return read.completion.here(settle(read, error, 0));
    read.offset = arguments->offset;
    read.budget = from(op_ctx->fsal_export).io_budget.get();
    if (read.offset >= read.size) return read.completion.here(settle(read, 0, read.size));
    read.length = std::min<uint64_t>(room(*arguments), read.size - read.offset);
    start(read);
}

}  // namespace fabric::fsal
