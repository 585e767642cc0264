// read_many: many small files in one request. One thread goes through the whole batch as the user: there is one change
// of threads for the batch, not one for each file.
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>

#include "common/crc32c.h"
#include "common/fault.h"
#include "common/io/transfer_metrics.h"
#include "xds/target/operations.h"
#include "xds/target/target.h"
#include "xds/transport/verbs/gather.h"

namespace fabric::xds::target {
namespace {

// The parts of the job's memory for [at, at + length).
unsigned parts(const Job& job, size_t at, size_t length, std::array<iovec, Job::most_buffers>& out) {
    unsigned count = 0;
    for (unsigned i = 0; i < job.buffer_count && length > 0; ++i) {
        const iovec& part = job.memory[i];
        if (at >= part.iov_len) {
            at -= part.iov_len;
            continue;
        }
        size_t now = std::min(part.iov_len - at, length);
        out[count++] = {static_cast<char*>(part.iov_base) + at, now};
        length -= now;
        at = 0;
    }
    return count;
}

// Bytes read into the memory from job.filled on, or -errno.
ssize_t read_whole(const Job& job, int fd, size_t length) {
    size_t done = 0;
    while (done < length) {
        std::array<iovec, Job::most_buffers> iov;
        unsigned count = parts(job, job.filled + done, length - done, iov);
        ssize_t got = ::preadv(fd, iov.data(), static_cast<int>(count), static_cast<off_t>(done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -errno;
        if (got == 0) break;
        done += static_cast<size_t>(got);
    }
    return static_cast<ssize_t>(done);
}

wire::ManyResult read_one(Job& job, const wire::ManyEntry& entry) {
    wire::ManyResult result;
    auto failed = [&](const Status& status) {
        result.error = static_cast<uint32_t>(status.errno_value());
        result.cause = cause_of(status);
        return result;
    };
    if (int error = fault::hit("xds.read_many")) return failed(Status::from_errno(error));
    struct stat status;
    std::string_view name = std::string_view(job.path).substr(entry.name_at, entry.name_length);
    Result<UniqueFd> file = job.session.target().tree().open_for_batch(name, status);
    if (!file.ok()) return failed(file.status());
    result.size = static_cast<uint64_t>(status.st_size);
    ssize_t got = read_whole(job, file->get(), std::min<uint64_t>(entry.length, result.size));
    if (got < 0) return failed(Status::from_errno(static_cast<int>(-got)));
    result.length = static_cast<uint32_t>(got);
    if (job.flags & wire::io_flags::checksum) {
        std::array<iovec, Job::most_buffers> iov;
        unsigned count = parts(job, job.filled, result.length, iov);
        for (unsigned i = 0; i < count; ++i)
            result.data_crc = crc32c_extend(result.data_crc, iov[i].iov_base, iov[i].iov_len);
    }
    job.filled += result.length;
    return result;
}

void read_all(Job& job) {
    Session& session = job.session;
    if (Tree& tree = session.target().tree(); tree.others_write()) {
        std::vector<std::string_view> names;
        for (const wire::ManyEntry& entry : job.entries)
            names.push_back(std::string_view(job.path).substr(entry.name_at, entry.name_length));
        if (!(job.status = tree.settle_batch(session.user(), names)).ok()) return;
    }
    Result<bool> ran = session.target().tree().identities().run_as(session.user().credentials(), [&] {
        for (const wire::ManyEntry& entry : job.entries) job.results.push_back(read_one(job, entry));
        return true;
    });
    job.status = ran.status();
}

// By access each file's data goes to its own place. False: it has none.
bool place_results(Job& job) {
    for (size_t i = 0; i < job.results.size(); ++i)
        if (!transport::slice_segments(job.segments, job.entries[i].placement, job.results[i].length, job.places))
            return false;
    return true;
}

void all_read(Job& job) {
    if (!job.status.ok()) return job.session.fail(job, job.status);
    job.slices.fill({});
    parts(job, 0, job.filled, job.slices);
    io::count_transfer(io::Direction::read, io::Path::page_cache, job.filled);
    if (!job.session.data_is_inline() && !place_results(job))
        return job.session.fail(job, {Code::invalid, EINVAL, "a placement reaches behind the request's segments"},
                                wire::Cause::bad_request);
    job.session.reply(
        job, wire::ReadManyReply{job.flags & wire::io_flags::checksum, std::span<const wire::ManyResult>(job.results)},
        job.filled);
}

}  // namespace

void start_read_many(Session& session, Job& job, const wire::ReadMany& message) {
    if ((message.flags & ~(wire::io_flags::checksum | wire::io_flags::invalidate)) != 0)
        return session.fail(job, {Code::invalid, EOPNOTSUPP, "unknown read_many flags"}, wire::Cause::not_supported);
    job.flags = message.flags;
    job.path = message.names;
    job.entries.clear();
    job.results.clear();
    job.filled = 0;
    uint64_t total = 0;
    for (size_t i = 0; i < message.entries.size(); ++i) {
        job.entries.push_back(message.entries[i]);
        total += job.entries.back().length;
    }
    if (total > wire::max_data)
        return session.fail(job, {Code::invalid, EMSGSIZE, "a batch asks for more than 4 MiB"},
                            wire::Cause::bad_request);
    if (!session.take_segments(job, message.segments, job.flags, 0)) return;
    if (message.deadline_ms != 0)
        job.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(message.deadline_ms);
    session.reserve(job, total, [](Job& self) { self.session.offload(self, read_all, all_read); });
}

}  // namespace fabric::xds::target
