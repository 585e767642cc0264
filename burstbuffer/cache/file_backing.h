// Reads files of the backing file system by their handle.
#pragma once

#include <sys/stat.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "burstbuffer/cache/backing.h"
#include "common/unique_fd.h"

namespace fabric::cache {

// The version of an open file.
index::FileVersion version_of(const struct stat& status);
Result<index::FileVersion> version_of(int fd);

// Opening and reading may wait for a slow or remote file system, so each is done by one of the threads here.
class FileBacking : public Backing {
  public:
    // Opens a file for reading, with further flags of open(2). Any thread.
    using Opener = std::function<Result<UniqueFd>(const fs::FileId& file, int flags)>;

    FileBacking(Opener opener, unsigned threads);
    // Every fetch must have finished.
    ~FileBacking() override;

    void start(Fetch& fetch) override;

  private:
    void run(const std::stop_token& stop);
    Status read(const Fetch& fetch) const;

    const Opener open_;
    std::mutex mutex_;
    std::condition_variable_any arrived_;
    std::deque<Fetch*> waiting_;
    std::vector<std::jthread> threads_;
};

}  // namespace fabric::cache
