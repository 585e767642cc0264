// write and flush: client to file.
#include <sys/uio.h>

#include <algorithm>

#include "common/crc32c.h"
#include "common/io/transfer_metrics.h"
#include "xds/target/operations.h"
#include "xds/target/target.h"

namespace fabric::xds::target {
namespace {

void write_done(Job& job);

void begin_transfer(Job& job) {
    job.transfer.op = io::Op::write;
    job.transfer.fd = job.direct ? job.file->direct_fd.get() : job.file->fd.get();
    job.transfer.offset = job.offset;
    job.transfer.length = job.length;
    job.transfer.iov = job.memory.data();
    job.transfer.iov_count = static_cast<int>(job.buffer_count);
    job.transfer.flags = job.flags & wire::io_flags::stable ? RWF_DSYNC : 0;
    job.transfer.alignment = job.direct ? job.file->alignment : 0;
    job.session.transfer(job, write_done);
}

void write_done(Job& job) {
    Session& session = job.session;
    if (job.transfer.error != 0 && job.transfer.done == 0) {
        if (job.direct && job.transfer.error == EINVAL) {
            job.direct = false;
            return begin_transfer(job);
        }
        return session.fail(job, Status::from_errno(job.transfer.error, "write to the file"));
    }
    io::count_transfer(io::Direction::write, job.direct ? io::Path::direct : io::Path::page_cache, job.transfer.done);
    session.reply(job, wire::WriteReply{0, 0, job.transfer.done, session.target().instance()});
}

// All data is here: only now is the file touched.
void data_here(Job& job) {
    if (job.flags & wire::io_flags::checksum) {
        uint32_t sum = 0;
        for (unsigned i = 0; i < job.buffer_count; ++i)
            sum = crc32c_extend(sum, job.memory[i].iov_base, job.memory[i].iov_len);
        if (sum != job.data_crc)
            return job.session.fail(job, {Code::corrupt, EIO, "the data arrived damaged; nothing was written"},
                                    wire::Cause::checksum);
    }
    begin_transfer(job);
}

void flush_done(Job& job) {
    if (job.transfer.error != 0)
        return job.session.fail(job, Status::from_errno(job.transfer.error, "flush of the file"), wire::Cause::device);
    job.session.reply(job, wire::FlushReply{job.session.target().instance()});
}

}  // namespace

void start_write(Session& session, Job& job, const wire::Write& message) {
    constexpr uint32_t known = wire::io_flags::checksum | wire::io_flags::stable | wire::io_flags::invalidate;
    if ((message.flags & ~known) != 0)
        return session.fail(job, {Code::invalid, EOPNOTSUPP, "unknown write flags"}, wire::Cause::not_supported);
    if (session.data_is_inline() && message.length != job.length)
        return session.fail(job, {Code::invalid, EINVAL, "a write's length differs from its data's"},
                            wire::Cause::bad_request);
    job.flags = message.flags;
    job.offset = message.offset;
    job.length = message.length;
    job.data_crc = message.data_crc;
    if (!check_transfer(session, job, message.handle, wire::open_flags::write, message.map_epoch, message.deadline_ms))
        return;
    if (!session.take_segments(job, message.segments, job.flags, job.length)) return;
    if (job.length == 0) return session.reply(job, wire::WriteReply{0, 0, 0, session.target().instance()});
    const Config& config = session.target().config();
    uint64_t unit = std::max<uint64_t>(job.file->alignment, 1);
    job.direct =
        job.file->direct_fd && job.offset % unit == 0 && job.length % unit == 0 &&
        (config.direct == Direct::always || (config.direct == Direct::automatic && job.length >= config.direct_from));
    session.reserve(job, job.length, [](Job& self) { self.session.fetch(self, data_here); });
}

void start_flush(Session& session, Job& job, const wire::Flush& message) {
    job.file = session.file(message.handle);
    if (job.file == nullptr)
        return session.fail(job, {Code::invalid, EBADF, "flush: no such handle"}, wire::Cause::not_found);
    job.transfer.op = io::Op::fsync;
    job.transfer.fd = job.file->fd.get();
    job.transfer.offset = job.transfer.length = 0;
    session.transfer(job, flush_done);
}

}  // namespace fabric::xds::target
