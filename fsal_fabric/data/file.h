// What an object keeps for a regular file's data: descriptors, share reservations, writes that are not durable yet.
#pragma once

#include <atomic>
#include <mutex>

#include "fsal_fabric/ganesha.h"

namespace fabric::fsal {

// A descriptor as Ganesha manages it. fsal_fd stands first: fsal_start_io (FSAL/commonlib.c) finds the descriptor of a
// state by casting the address behind the state_t.
struct Fd {
    fsal_fd base;
    int fd;
    // The same file in the same access mode with O_DIRECT, opened at the first use and closed with fd; -1 until then.
    std::atomic<int> direct_fd;
    // The file system does not take O_DIRECT for this file.
    std::atomic<bool> direct_refused;

    static Fd& from(fsal_fd* base) { return *reinterpret_cast<Fd*>(base); }
};

// Embedded in an Object of type REGULAR_FILE.
struct FileData {
    // The descriptor for I/O without a state (NFSv3, anonymous stateids); Ganesha's LRU may close it.
    Fd global;
    fsal_share share;
    fsal_obj_handle* object;  // whose data this is

    // A descriptor while writes are answered UNSTABLE and not committed, else -1. It shares the open file description
    // that wrote first, so the kernel reports on it every write-back error since then, whoever closed or synced what
    // meanwhile (errseq_t: an error is reported once per open file description).
    std::atomic<int> uncommitted;
    // The burst buffer's rule for writing the file back, once that has been looked for.
    static constexpr int rule_unknown = -2, no_rule = -1;
    std::atomic<int> rule;
    FileData* next_uncommitted;  // the list of UncommittedFiles
    FileData* previous_uncommitted;
    // Makes the commits of one file go one after another, so that none answers before an earlier one's error is known.
    std::mutex commit_mutex;

    void init(fsal_obj_handle& of, fsal_export& owner);
    void destroy();
};

}  // namespace fabric::fsal
