// read, by the cache that stands before the file system.
#include <sys/stat.h>

#include "xds/target/operations.h"
#include "xds/target/target.h"

namespace fabric::xds::target {
namespace {

int64_t nanoseconds(const timespec& time) { return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec; }

// On the reactor, when every part is over. What the cache does not have all of is read from the file.
void parts_done(Job& job) {
    size_t done = 0;
    bool short_part = false;
    for (unsigned i = 0; i < job.buffer_count; ++i) {
        const ReadCache::Request& part = job.cached[i];
        if (part.outcome == ReadCache::Outcome::failed) return job.session.fail(job, part.status);
        if (part.outcome == ReadCache::Outcome::passed) return read_file(job);
        if (!short_part) done += part.bytes;
        short_part = short_part || part.bytes < part.length;
    }
    job.transfer.done = done;
    job.from_cache = true;
    answer_read(job);
}

void part_over(Job& job) {
    if (job.cached_left.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    job.then = parts_done;
    job.session.proceed(job);
}

}  // namespace

void read_cached(Job& job) {
    struct stat now;
    if (::fstat(job.file->fd.get(), &now) != 0) return read_file(job);
    ReadCache& cache = *job.session.target().cache();
    unsigned count = job.buffer_count;
    job.cached_left.store(count + 1, std::memory_order_relaxed);
    uint64_t at = job.start;
    for (unsigned i = 0; i < count; ++i) {
        auto& part = job.cached[i];
        static_cast<ReadCache::Request&>(part) = {};
        part.file = &*job.file->id;
        part.size = static_cast<uint64_t>(now.st_size);
        part.mtime_ns = nanoseconds(now.st_mtim);
        part.ctime_ns = nanoseconds(now.st_ctim);
        part.offset = at;
        part.length = job.memory[i].iov_len;
        part.to = static_cast<char*>(job.memory[i].iov_base);
        part.finished = [](ReadCache::Request& request) {
            part_over(*static_cast<Job::Part<ReadCache::Request>&>(request).job);
        };
        at += part.length;
        part.outcome = ReadCache::Outcome::served;
        if (part.offset >= part.size)
            job.cached_left.fetch_sub(1, std::memory_order_relaxed);  // nothing there
        else
            cache.start(part);
    }
    part_over(job);  // not before all have begun
}

}  // namespace fabric::xds::target
