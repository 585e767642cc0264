// Loads files into the cache beforehand, and says exactly what came of it.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "burstbuffer/cache/cache.h"
#include "burstbuffer/cache/file_backing.h"
#include "burstbuffer/stage/tree.h"

namespace fabric::stage {

struct StageOptions {
    std::vector<std::string> paths;  // files and folders, absolute
    bool follow = false;             // see Walk
    index::Lifetime lifetime = {};
    unsigned workers = 8;  // files that are read at once
};

struct Progress {
    bool scanning = true;
    uint64_t files = 0;  // found so far, or in all
    uint64_t bytes = 0;
    uint64_t done_files = 0;  // held now
    uint64_t done_bytes = 0;
    uint64_t held_files = 0;  // of these, held before
    uint64_t held_bytes = 0;
    uint64_t failed_files = 0;
};

struct Failure {
    std::string path;
    std::string cause;
};

struct StageResult {
    Progress progress;
    // Everything that was asked for is held.
    bool complete = false;
    bool cancelled = false;
    // What is missing and why; the first ones when there are very many: progress.failed_files counts all of them.
    std::vector<Failure> failures;
};

// One job. What an earlier, interrupted job loaded is not loaded again.
class Stager {
  public:
    Stager(cache::Cache& cache, fs::FilesystemTable& filesystems, io::BufferPool& pool)
        : cache_(cache), filesystems_(filesystems), pool_(pool) {}

    // `tell` is called some times a second, on the calling thread; false from it cancels the job. A Status: nothing was
    // loaded, since it does not fit (ENOSPC, with both numbers) or there is nothing.
    Result<StageResult> run(const StageOptions& options, const std::function<bool(const Progress&)>& tell);

  private:
    static constexpr size_t most_failures = 1000;
    // Small files are read and written so many bytes at once, in whole blocks.
    static constexpr size_t batch_bytes = size_t{2} << 20;
    struct Batch;

    bool scan(const StageOptions& options, const std::function<bool(const Progress&)>& tell);
    Status check_room() const;
    Status check_quotas() const;
    void load(const StageOptions& options);
    bool take_batch(size_t& first, size_t& last);
    void load_small(size_t first, size_t last, const StageOptions& options, char* buffer);
    Status load_large(const TreeFile& file, const StageOptions& options, char* buffer);
    Status put(std::span<const disks::Entry> entries, const index::Lifetime& lifetime);
    bool is_held(const TreeFile& file, const index::Lifetime& lifetime);
    Result<UniqueFd> open(const TreeFile& file) const;
    void done(const TreeFile& file, bool before);
    void failed(const std::string& path, const std::string& cause);

    cache::Cache& cache_;
    fs::FilesystemTable& filesystems_;
    io::BufferPool& pool_;
    std::vector<TreeFile> files_;
    std::vector<fs::FilesystemPtr> in_use_;
    std::atomic<bool> cancelled_{false};
    mutable std::mutex mutex_;  // for what follows
    size_t next_ = 0;
    StageResult result_;
};

}  // namespace fabric::stage
