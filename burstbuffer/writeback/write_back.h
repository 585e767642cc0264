// Writes that are acknowledged when this node's disks have them, and reach the backing store later, in order.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "burstbuffer/writeback/file.h"
#include "burstbuffer/writeback/options.h"
#include "common/io/buffer_pool.h"

namespace fabric::writeback {

// Thread safe. Calls may wait for the disks and, where it is said, for the backing store: none belongs on a lane.
class WriteBack {
  public:
    // The disks, the pool and the table outlive it. What an earlier process left is found and drained, whatever the
    // rules are now. `pressed`: called when room on the disks is short; it must not wait. `read_so_far`: grows while
    // clients read from this node; empty: none do.
    static Result<std::unique_ptr<WriteBack>> start(disks::Disks& disks, io::BufferPool& pool,
                                                    fs::FilesystemTable& filesystems, const Options& options,
                                                    std::function<void()> pressed,
                                                    std::function<uint64_t()> read_so_far = {});
    // Drains or keeps, as the options say. No other call may be in progress.
    ~WriteBack();

    bool has_rules() const { return !options_.paths.empty(); }
    // The rule for a path, if there is one.
    std::optional<size_t> rule_of(std::string_view path) const;
    // Whether the backing store may lack something of the file. Who finds it false and looks at the file after that
    // sees all of it there.
    bool dirty(const fs::FileId& file) const;
    // Of any file.
    bool dirty() const { return file_count_.load() != 0; }

    // A file with its descriptor, open for writing at the backing store.
    struct Target {
        const fs::FileId& id;
        const fs::FilesystemPtr& filesystem;
        int fd;
    };
    // Takes bytes; not durable before commit(). The file's size and time at the backing store are right on return. How
    // many were taken; 0: the caller is to write through, in order: everything before is at the backing store. Without
    // `rule`, only if the file is dirty. Waits for the drain when the disks or the limits have no room; when the drain
    // cannot go on, its error. Errors of the backing store for the size, too.
    Result<size_t> write(const Target& target, std::optional<size_t> rule, uint64_t offset, std::span<const iovec> from,
                         size_t length);
    // Everything taken so far of the file is durable on return. Many at once share one sync. An error: what was not
    // durable before, of any file, is gone; the handler below was called.
    Status commit(const fs::FileId& file);
    // Called when bytes that were taken and not yet durable are given up, since the disk did not make them so: their
    // writers must be told (the write verifier). Set before the first write.
    void on_loss(std::function<void(const Status&)> handler) { on_loss_ = std::move(handler); }
    // Reads `size` bytes, all in front of the end of the file, what is not here from `fd`. Bytes that only this node
    // has and that cannot be read are an error.
    Status read(const fs::FileId& file, int fd, uint64_t offset, size_t size, char* to);
    // Does `change`, which truncates the file to `size` at the backing store and returns 0 or an errno; what was taken
    // before is cut likewise, durably.
    int truncate(const fs::FileId& file, uint64_t size, const std::function<int()>& change);
    // The file has lost a name. If it was its last one, the drain, which may have it open, does not keep it alive on
    // return.
    void unlinked(const fs::FileId& file);
    // Everything taken so far of the file, and what has to be there before it, is at the backing store on return; else
    // why not. Waits for the drain.
    Status flush(const fs::FileId& file);

    // The file's time of modification as clients are to see it, where the backing store may show the drain's.
    std::optional<timespec> mtime(const fs::FileId& file) const;
    // A client has set it.
    void set_mtime(const fs::FileId& file, const timespec& to);

    struct FileState {
        uint64_t bytes = 0;           // on the disks only
        uint64_t before = 0;          // that have to be drained up to its last one
        std::chrono::seconds age{0};  // of the oldest
        double rate = 0;              // bytes a second of its drain, lately
    };
    FileState state(const fs::FileId& file) const;
    struct QueueState {
        std::string rule;
        uint64_t bytes = 0;
        uint64_t pieces = 0;
        std::chrono::seconds age{0};
        double rate = 0;
        uint64_t failures = 0;  // since the start
        std::optional<Trouble> trouble;
    };
    std::vector<QueueState> queues() const;
    // Everything written becomes durable, and is drained without regard to the rate until the guard ends.
    class Hurry {
      public:
        explicit Hurry(WriteBack& all);
        ~Hurry();
        Hurry(const Hurry&) = delete;

      private:
        WriteBack& all_;
    };
    // Waits until something was drained or failed, but not longer.
    void wait_for_progress(std::chrono::milliseconds longest);

  private:
    using Lock = std::unique_lock<std::mutex>;
    // Keeps a file's entry while a call works on it.
    class Use {
      public:
        Use(WriteBack& all, FilePtr file) : all_(all), file_(std::move(file)) {}
        ~Use();
        Use(const Use&) = delete;
        explicit operator bool() const { return file_ != nullptr; }
        File& operator*() const { return *file_; }
        File* operator->() const { return file_.get(); }
        const FilePtr& pointer() const { return file_; }

      private:
        WriteBack& all_;
        const FilePtr file_;
    };

    WriteBack(disks::Disks& disks, io::BufferPool& pool, fs::FilesystemTable& filesystems, const Options& options,
              std::function<void()> pressed, std::function<uint64_t()> read_so_far);
    size_t queue_for(uint32_t hash);
    Status recover();
    void recovered(const PieceName& name, const PiecePtr& piece);
    void restore_sizes(const fs::FilesystemPtr& filesystem);
    void restore_size(File& file);

    FilePtr find(const fs::FileId& file) const;  // under mutex_
    FilePtr use_if_dirty(const fs::FileId& file);
    FilePtr use(const Target& target, std::optional<size_t> rule);
    void release_if_clean(File& file);  // under mutex_
    void count();

    // write_back.cpp
    Result<PiecePtr> take(File& file, uint64_t offset, std::span<const char> bytes);
    Result<bool> make_room(Lock& lock, File& file, uint64_t bytes);
    Status wait_for_drain(Lock& lock, Queue& queue);
    PiecePtr new_piece(const File& file, PieceName name, uint64_t length);
    void insert(const FilePtr& file, const PiecePtr& piece);
    Status grow_and_insert(const FilePtr& file, const PiecePtr& piece, int fd);
    static Status grow(File& file, int fd, uint64_t end);

    // publish.cpp
    Status publish_all(uint64_t upto);
    using OfDisk = std::pair<disks::Disk* const, std::vector<store::LocalStore::Held>>;
    Status publish(std::vector<Entry>& batch);
    void unpublish(std::vector<Entry>& batch, const OfDisk& of);
    void published(const std::vector<Entry>& batch);
    void give_up(const std::vector<Entry>& batch);
    void supersede(File& file);
    Status make_name_durable(File& file);

    // drain.cpp
    struct Run {
        FilePtr file;
        std::vector<PiecePtr> pieces;
        uint64_t bytes = 0;
    };
    void drain(Queue& queue, const std::stop_token& stop);
    void drain_next(Queue& queue, Lock& lock, const std::stop_token& stop);
    static Run next_run(const Queue& queue);
    Status drain_run(Queue& queue, const Run& run, const std::stop_token& stop);
    Status drain_piece(File& file, const Piece& piece, int fd);
    bool others_read(Queue& queue) const;
    void yield(Queue& queue, std::chrono::steady_clock::duration took, const std::stop_token& stop);
    void keep_pace(Queue& queue, std::chrono::steady_clock::time_point since, uint64_t bytes,
                   const std::stop_token& stop);
    Result<UniqueFd> open(File& file, int flags);
    void finish(Queue& queue, const Run& run, const Status& status);
    void fail(Queue& queue, const Status& status);
    void forget_file(Queue& queue, const FilePtr& file);
    void drop_dead(Queue& queue);
    bool too_old(const Queue& queue) const;
    Result<io::LentBuffer> read_piece(const Piece& piece, size_t offset, size_t size, store::Grace::Token token);
    void end_drained();

    disks::Disks& disks_;
    io::BufferPool& pool_;
    fs::FilesystemTable& filesystems_;
    const Options options_;
    const std::function<void()> pressed_;
    const std::function<uint64_t()> read_so_far_;
    std::function<void(const Status&)> on_loss_;

    mutable std::mutex mutex_;
    std::condition_variable_any work_;  // for the drains
    std::condition_variable changed_;   // for who waits for them, and for commits
    std::unordered_map<std::string, FilePtr> files_;
    std::atomic<size_t> file_count_{0};
    std::deque<Queue> queues_;  // of the rules, in order; then of rules that are no more
    std::vector<Entry> unpublished_;
    uint64_t taken_ = 0;      // pieces, since the start
    uint64_t published_ = 0;  // of these, or given up
    bool publishing_ = false;
    uint64_t lost_ = 0;  // times that pieces were given up
    uint64_t next_sequence_ = 1, next_number_ = 1;
    uint64_t bytes_ = 0;        // of all queues
    uint64_t bytes_shown_ = 0;  // by the metric
    std::vector<std::jthread> threads_;
};

}  // namespace fabric::writeback
