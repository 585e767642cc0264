// read: file to client.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>

#include "common/crc32c.h"
#include "common/io/transfer_metrics.h"
#include "xds/target/operations.h"
#include "xds/target/target.h"

namespace fabric::xds::target {
namespace {

// A look into the page cache that never waits: are first and last byte there?
bool is_cached(int fd, uint64_t offset, uint64_t length) {
    for (uint64_t at : {offset, offset + length - 1}) {
        char byte;
        iovec part{&byte, 1};
        if (::preadv2(fd, &part, 1, static_cast<off_t>(at), RWF_NOWAIT) < 0) return false;
    }
    return true;
}

bool wants_direct(const Config& config, const OpenFile& file, uint64_t offset, uint64_t length) {
    if (!file.direct_fd || config.direct == Direct::never) return false;
    if (config.direct == Direct::always) return true;
    return length >= config.direct_from && !is_cached(file.fd.get(), offset, length);
}

uint64_t size_of(const OpenFile& file) {
    struct stat status;
    return ::fstat(file.fd.get(), &status) == 0 ? static_cast<uint64_t>(status.st_size) : 0;
}

// The part [skip, skip + length) of the job's memory goes out.
void slice(Job& job, size_t skip, size_t length) {
    job.slices.fill({});
    for (unsigned i = 0, out = 0; i < job.buffer_count && length > 0; ++i) {
        const iovec& part = job.memory[i];
        if (skip >= part.iov_len) {
            skip -= part.iov_len;
            continue;
        }
        size_t now = std::min(part.iov_len - skip, length);
        job.slices[out++] = {static_cast<char*>(part.iov_base) + skip, now};
        length -= now;
        skip = 0;
    }
}

void read_done(Job& job);

void begin_transfer(Job& job, size_t length) {
    job.from_cache = false;
    job.transfer.op = io::Op::read;
    job.transfer.fd = job.direct ? job.file->direct_fd.get() : job.file->fd.get();
    job.transfer.offset = job.start;
    job.transfer.length = length;
    job.transfer.iov = job.memory.data();
    job.transfer.iov_count = static_cast<int>(job.buffer_count);
    job.transfer.flags = 0;
    job.transfer.alignment = job.direct ? job.file->alignment : 0;
    job.session.transfer(job, read_done);
}

// The same through the page cache; the memory is large enough for it.
void read_again_buffered(Job& job) {
    job.direct = false;
    job.start = job.offset;
    begin_transfer(job, job.length);
}

void read_done(Job& job) {
    Session& session = job.session;
    if (job.transfer.error != 0) {
        if (job.direct && job.transfer.error == EINVAL) return read_again_buffered(job);
        return session.fail(job, Status::from_errno(job.transfer.error, "read of the file"));
    }
    answer_read(job);
}

}  // namespace

void answer_read(Job& job) {
    Session& session = job.session;
    size_t skip = job.offset - job.start;
    size_t got = job.transfer.done > skip ? std::min(job.transfer.done - skip, size_t{job.length}) : 0;
    uint64_t end = job.offset + got, size = size_of(*job.file);
    // The file grew since the cache was asked for it.
    if (got < job.length && end < size && job.from_cache) return read_file(job);
    // Direct I/O ends short at the end of the file and elsewhere alike; the size tells.
    if (got < job.length && end < size && job.direct) return read_again_buffered(job);
    if (got < job.length && end < size)
        return session.fail(job, {Code::io, EIO, "the file system ended a read before the end of the file"});
    slice(job, skip, got);
    io::Path path = job.direct ? io::Path::direct : io::Path::page_cache;
    io::count_transfer(io::Direction::read, job.from_cache ? io::Path::burst_buffer : path, got);
    wire::ReadReply reply;
    reply.length = got;
    reply.copied = job.direct || job.from_cache ? 0 : got;
    if (end >= size) reply.flags |= wire::io_flags::end_of_file;
    if (job.flags & wire::io_flags::checksum) {
        reply.flags |= wire::io_flags::checksum;
        for (const iovec& part : job.slices)
            reply.data_crc = crc32c_extend(reply.data_crc, part.iov_base, part.iov_len);
    }
    session.reply(job, reply, got);
}

void read_file(Job& job) { begin_transfer(job, job.wanted); }

bool check_transfer(Session& session, Job& job, uint32_t handle, uint32_t right, uint64_t map_epoch,
                    uint32_t deadline_ms) {
    auto refuse = [&](int error, const char* text, wire::Cause cause) {
        session.fail(job, {Code::invalid, error, text}, cause);
        return false;
    };
    job.file = session.file(handle);
    if (job.file == nullptr) return refuse(EBADF, "no such handle", wire::Cause::not_found);
    if ((job.file->flags & right) == 0) return refuse(EBADF, "the file was not opened for that", wire::Cause::access);
    if (job.length > wire::max_data)
        return refuse(EMSGSIZE, "more than 4 MiB in one request", wire::Cause::bad_request);
    if (job.offset > INT64_MAX - wire::max_data) return refuse(EINVAL, "impossible offset", wire::Cause::bad_request);
    const security::Capability& grant = job.file->grant;
    if (!grant.covers(job.offset, job.length) || (grant.expiry_ns != 0 && grant.expiry_ns <= wall_clock_ns()))
        return refuse(EACCES, "outside of what the capability grants, or it has expired", wire::Cause::access);
    if (map_epoch != 0 && map_epoch < session.target().map_epoch())
        return refuse(ESTALE, "the placement has changed: ask for the layout again", wire::Cause::stale_layout);
    if (deadline_ms != 0) job.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(deadline_ms);
    return true;
}

void start_read(Session& session, Job& job, const wire::Read& message) {
    if ((message.flags & ~(wire::io_flags::checksum | wire::io_flags::invalidate)) != 0)
        return session.fail(job, {Code::invalid, EOPNOTSUPP, "unknown read flags"}, wire::Cause::not_supported);
    job.flags = message.flags;
    job.offset = message.offset;
    job.length = message.length;
    if (!check_transfer(session, job, message.handle, wire::open_flags::read, message.map_epoch, message.deadline_ms))
        return;
    if (!session.take_segments(job, message.segments, job.flags, job.length)) return;
    job.places = job.segments;
    if (job.length == 0) {
        wire::ReadReply nothing;
        nothing.flags = (job.flags & wire::io_flags::checksum) |
                        (job.offset >= size_of(*job.file) ? wire::io_flags::end_of_file : 0);
        return session.reply(job, nothing);
    }
    job.start = job.offset;
    job.direct = wants_direct(session.target().config(), *job.file, job.offset, job.length);
    size_t bytes = job.length;
    if (job.direct) {
        uint64_t unit = job.file->alignment, end = (job.offset + job.length + unit - 1) / unit * unit;
        job.start = job.offset / unit * unit;
        bytes = end - job.start;
    }
    session.reserve(job, bytes, session.target().cache() != nullptr && job.file->id ? read_cached : read_file);
}

}  // namespace fabric::xds::target
