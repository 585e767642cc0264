// The files with writes that were answered UNSTABLE and that nobody has committed yet.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "common/unique_fd.h"
#include "fsal_fabric/object.h"

namespace fabric::fsal {

// Each holds a descriptor (FileData::uncommitted), and descriptors are few: when these files take half of their share,
// a thread makes the writes of all of them durable and closes the descriptors, so that a client that writes many files
// and commits late is not slowed down to the pace of one sync per file. Thread safe.
class UncommittedFiles {
  public:
    void start();
    // Waits for the round in progress. Files that are noted keep their descriptors.
    void stop();

    // Notes the object with a copy of `fd`, unless it is noted. False: there is no room, or no descriptor.
    bool note(Object& object, int fd);
    // Ends the noting; the descriptor, if it was noted, is the caller's to sync.
    UniqueFd take(Object& object);

  private:
    // Descriptors of one round and the file system that they lie on.
    struct Round {
        fs::FilesystemPtr filesystem;
        std::vector<UniqueFd> files;
    };
    void run();
    std::vector<Round> take_all();
    void unlink(FileData& file);

    std::mutex mutex_;
    std::condition_variable condition_;
    FileData* first_ = nullptr;
    size_t noted_ = 0;
    size_t settling_ = 0;  // descriptors of the round in progress
    bool stopping_ = true;
    std::thread thread_;
};

// Files with uncommitted writes that may be noted at once: an eighth of the descriptors.
size_t most_uncommitted();

}  // namespace fabric::fsal
