// The operations of a target, one file each. A start_ function takes over the job and sees that it is answered.
#pragma once

#include "xds/target/session.h"

namespace fabric::xds::target {

void start_open(Session& session, Job& job, const wire::Open& message);
void start_close(Session& session, Job& job, const wire::Close& message);
void start_layout(Session& session, Job& job, const wire::Layout& message);
void start_read(Session& session, Job& job, const wire::Read& message);
void start_write(Session& session, Job& job, const wire::Write& message);
void start_flush(Session& session, Job& job, const wire::Flush& message);
void start_stat(Session& session, Job& job, const wire::Stat& message);
void start_read_many(Session& session, Job& job, const wire::ReadMany& message);

// Parts of a read. read_cached asks the cache and falls back to read_file; both, when the job's memory is reserved.
// answer_read: job.transfer.done bytes from job.start on are in the job's memory.
void read_cached(Job& job);
void read_file(Job& job);
void answer_read(Job& job);

// What read and write have in common: handle, rights, range, length, epoch. Not ok: the job was answered.
bool check_transfer(Session& session, Job& job, uint32_t handle, uint32_t right, uint64_t map_epoch,
                    uint32_t deadline_ms);

}  // namespace fabric::xds::target
