// An open file: by handles on the context's connections, or by a descriptor of this process (local).
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "xds/client/context.h"

namespace fabric::xds::client {

class File : public std::enable_shared_from_this<File> {
  public:
    enum class Readiness { ready, pending, failed };

    File(std::shared_ptr<Context> context, std::string path, uint32_t flags, uint32_t mode);
    // A file that this process uses itself.
    File(std::shared_ptr<Context> context, UniqueFd local);
    ~File();

    const std::shared_ptr<Context>& context() const { return context_; }
    const std::string& path() const { return path_; }
    bool is_local() const { return static_cast<bool>(local_); }
    int local_fd() const { return local_.get(); }
    // Opens it on the first connection; blocks.
    Status open();
    // Closes its handles; blocks until the target has answered. Requests in flight end by their result or EBADF.
    Status close();
    Result<wire::Attributes> stat();
    Status flush();

    // ---- on the reactor's thread ----
    // Whether the file can be used on the stream; begins to open it there.
    Readiness prepare(Stream& stream);
    const Status& why() const { return why_; }
    uint32_t handle(const Stream& stream) const { return handles_[stream.index()].number; }
    unsigned home() const { return home_; }
    // A write was answered: what is to be flushed, and on which run of the target.
    void wrote(uint64_t instance) { unflushed_.insert(instance); }
    // A flush was answered by that run of the target. False: another run took some of the writes.
    bool flushed(uint64_t instance);

  private:
    class OpenOn;
    class Control;
    struct Handle {
        enum class State { none, opening, open } state = State::none;
        uint64_t generation = 0;
        uint32_t number = 0;
    };
    void opened(Stream& stream, const wire::OpenReply& reply);
    void not_opened(Stream& stream, const Status& why);

    std::shared_ptr<Context> context_;
    std::string path_;
    uint32_t flags_ = 0, mode_ = 0;
    UniqueFd local_;

    // The reactor's own.
    std::vector<Handle> handles_;  // one a stream
    std::vector<std::unique_ptr<OpenOn>> opens_;
    unsigned home_ = 0;
    bool first_ = true;  // the next open is the caller's own: with create and truncate
    bool closed_ = false;
    Status why_;
    security::Id id_file_system_{};
    int32_t id_type_ = 0;
    std::string id_handle_, capability_;
    std::set<uint64_t> unflushed_;  // instances of the target that took writes since the last flush
};

}  // namespace fabric::xds::client
