// What an object keeps for a regular file's data: descriptors, share reservations, writes that are not durable yet.
#pragma once

#include <atomic>
#include <mutex>

#include "common/unique_fd.h"
#include "fsal_fabric/ganesha.h"

namespace fabric::fsal {

// A descriptor as Ganesha manages it. fsal_fd stands first: fsal_start_io (FSAL/commonlib.c) finds the descriptor of a
// state by casting the address behind the state_t.
struct Fd {
    fsal_fd base;
    int fd;
    // The same file in the same access mode with O_DIRECT, opened at the first use and closed with fd; -1 until then,
    // direct_refused where the file system or the descriptor limit does not allow it.
    std::atomic<int> direct_fd;

    static constexpr int direct_refused = -2;

    static Fd& from(fsal_fd* base) { return *reinterpret_cast<Fd*>(base); }
};

// Embedded in an Object of type REGULAR_FILE.
struct FileData {
    // The descriptor for I/O without a state (NFSv3, anonymous stateids); Ganesha's LRU may close it.
    Fd global;
    fsal_share share;

    // Writes that were answered UNSTABLE and not committed yet. The descriptor shares the open file description that
    // wrote first, so the kernel reports on it any write-back error since then, whoever closed what meanwhile
    // (errseq, Documentation/core-api/errseq.rst); -1: nothing is pending. Guarded by commit_mutex, which also makes
    // the commits of one file go one after another, so that none answers before an earlier one's error is known.
    std::mutex commit_mutex;
    UniqueFd uncommitted;
    std::atomic<bool> has_uncommitted;

    // `fsal_export` owns the object.
    void init(fsal_export* owner);
    void destroy();
};

}  // namespace fabric::fsal
