// xdscp: copies a file to or from an XDS target.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

#include "common/crc32c.h"
#include "common/unique_fd.h"
#include "xds/tools/remote.h"

namespace fabric::xds::tools {
namespace {

struct Arguments {
    std::string from, to, agent, block_text = "4MiB";
    unsigned depth = 8;
    bool verify = false, progress = false, quiet = false;
    size_t block = 0;
};

class Progress {
  public:
    Progress(uint64_t total, bool shown) : total_(total), shown_(shown) {}
    void advance(uint64_t bytes) {
        done_ += bytes;
        auto now = std::chrono::steady_clock::now();
        if (!shown_ || (now < next_ && done_ < total_)) return;
        next_ = now + std::chrono::milliseconds(200);
        double seconds = std::max(1e-3, std::chrono::duration<double>(now - start_).count());
        double rate = static_cast<double>(done_) / seconds;
        double left = rate > 0 ? static_cast<double>(total_ - std::min(total_, done_)) / rate : 0;
        int filled = total_ == 0 ? 30 : static_cast<int>(30 * std::min(total_, done_) / total_);
        std::fprintf(stderr, "\r[%-30.*s] %5.1f%%  %.1f MB/s  %.0f s left ", filled, "##############################",
                     total_ == 0 ? 100.0 : 100.0 * static_cast<double>(done_) / static_cast<double>(total_), rate / 1e6,
                     left);
        if (done_ >= total_) std::fputc('\n', stderr);
    }

  private:
    const uint64_t total_;
    const bool shown_;
    uint64_t done_ = 0;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now(), next_;
};

// All of [offset, offset + length), or why not. A file that became shorter is EIO.
Status read_fully(int fd, char* to, size_t length, uint64_t offset) {
    for (size_t done = 0; done < length;) {
        ssize_t got = ::pread(fd, to + done, length - done, static_cast<off_t>(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return Status::from_errno(errno, "read");
        if (got == 0) return {Code::io, EIO, "the file became shorter while it was copied"};
        done += static_cast<size_t>(got);
    }
    return {};
}
Status write_fully(int fd, const char* from, size_t length, uint64_t offset) {
    for (size_t done = 0; done < length;) {
        ssize_t put = ::pwrite(fd, from + done, length - done, static_cast<off_t>(offset + done));
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return Status::from_errno(errno, "write");
        done += static_cast<size_t>(put);
    }
    return {};
}

// Moves `size` bytes between the remote file and the local one, `depth` blocks at once.
class Copy {
  public:
    Copy(const Arguments& arguments, const Context& context, const File& remote, int local, bool upload)
        : arguments_(arguments), context_(context), remote_(remote), local_(local), upload_(upload) {}

    Status run(uint64_t size) {
        xds_queue* queue = nullptr;
        if (int result = xds_queue_create(context_.get(), arguments_.depth, &queue); result != 0)
            return last_failure(result, "queue");
        memory_.resize(arguments_.depth * arguments_.block);
        Status status = move(queue, size);
        xds_queue_destroy(queue);
        return status;
    }

  private:
    Status move(xds_queue* queue, uint64_t size) {
        Progress progress(size, arguments_.progress);
        std::vector<unsigned> idle;
        for (unsigned i = 0; i < arguments_.depth; ++i) idle.push_back(i);
        blocks_.resize(arguments_.depth);
        uint64_t next = 0;
        for (unsigned in_flight = 0; next < size || in_flight > 0;) {
            while (next < size && !idle.empty()) {
                unsigned slot = idle.back();
                idle.pop_back();
                FABRIC_RETURN_IF_ERROR(submit(queue, slot, next, std::min<uint64_t>(arguments_.block, size - next)));
                next += blocks_[slot].length;
                ++in_flight;
            }
            xds_completion done{};
            done.size = sizeof done;
            if (int got = xds_queue_wait(queue, &done, 1, 1, -1); got != 1) return last_failure(got, "wait");
            --in_flight;
            auto slot = static_cast<unsigned>(done.cookie);
            FABRIC_RETURN_IF_ERROR(finished(done, slot));
            progress.advance(blocks_[slot].length);
            idle.push_back(slot);
        }
        return {};
    }
    Status submit(xds_queue* queue, unsigned slot, uint64_t offset, uint64_t length) {
        blocks_[slot] = {offset, static_cast<size_t>(length)};
        if (upload_) FABRIC_RETURN_IF_ERROR(read_fully(local_, at(slot), blocks_[slot].length, offset));
        xds_io io{sizeof(xds_io),
                  static_cast<uint32_t>(upload_ ? XDS_WRITE : XDS_READ),
                  remote_.get(),
                  at(slot),
                  length,
                  offset,
                  slot};
        int taken = xds_queue_submit(queue, &io, 1);
        return taken == 1 ? Status() : last_failure(taken, "submit");
    }
    Status finished(const xds_completion& done, unsigned slot) {
        const Block& block = blocks_[slot];
        if (done.result < 0) return {Code::io, static_cast<int>(-done.result), done.reason};
        if (static_cast<uint64_t>(done.result) != block.length)
            return {Code::io, EIO,
                    "only " + std::to_string(done.result) + " of " + std::to_string(block.length) + " bytes at " +
                        std::to_string(block.offset) + ": the file became shorter"};
        return upload_ ? Status() : write_fully(local_, at(slot), block.length, block.offset);
    }
    char* at(unsigned slot) { return memory_.data() + slot * arguments_.block; }

    struct Block {
        uint64_t offset = 0;
        size_t length = 0;
    };
    const Arguments& arguments_;
    const Context& context_;
    const File& remote_;
    const int local_;
    const bool upload_;
    std::vector<char> memory_;
    std::vector<Block> blocks_;
};

// Reads both sides again and compares them.
Status compare(const File& remote, int local, uint64_t size, size_t block) {
    std::vector<char> theirs(block), ours(block);
    for (uint64_t at = 0; at < size; at += block) {
        size_t length = std::min<uint64_t>(block, size - at);
        ssize_t got = xds_pread(remote.get(), theirs.data(), length, static_cast<off_t>(at));
        if (got < 0) return last_failure(got, "verification");
        FABRIC_RETURN_IF_ERROR(read_fully(local, ours.data(), length, at));
        if (static_cast<size_t>(got) != length || std::memcmp(theirs.data(), ours.data(), length) != 0)
            return {Code::corrupt, EIO,
                    "verification: the two differ between bytes " + std::to_string(at) + " and " +
                        std::to_string(at + length)};
    }
    return {};
}

Status download(const Arguments& arguments, const Context& context, const Remote& from) {
    Result<File> remote = File::open(context, from.path, O_RDONLY, 0);
    if (!remote.ok()) return remote.status();
    Result<uint64_t> size = remote->size();
    if (!size.ok()) return size.status();
    // Under another name until it is whole: nobody meets half a file.
    std::string partial = arguments.to + ".xdscp-partial";
    UniqueFd local(::open(partial.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!local) return Status::from_errno(errno, partial);
    Status status = Copy(arguments, context, *remote, local.get(), false).run(*size);
    if (status.ok() && ::fsync(local.get()) != 0) status = Status::from_errno(errno, "fsync " + partial);
    if (status.ok() && arguments.verify) status = compare(*remote, local.get(), *size, arguments.block);
    if (status.ok() && ::rename(partial.c_str(), arguments.to.c_str()) != 0)
        status = Status::from_errno(errno, "rename to " + arguments.to);
    if (!status.ok()) ::unlink(partial.c_str());
    return status;
}

Status upload(const Arguments& arguments, const Context& context, const Remote& to) {
    UniqueFd local(::open(arguments.from.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat attributes;
    if (!local || ::fstat(local.get(), &attributes) != 0) return Status::from_errno(errno, arguments.from);
    if (!S_ISREG(attributes.st_mode)) return Status::invalid(arguments.from + ": not a regular file");
    auto size = static_cast<uint64_t>(attributes.st_size);
    Result<File> remote = File::open(context, to.path, O_RDWR | O_CREAT | O_TRUNC, attributes.st_mode & 0777);
    if (!remote.ok()) return remote.status();
    FABRIC_RETURN_IF_ERROR(Copy(arguments, context, *remote, local.get(), true).run(size));
    if (int result = xds_fsync(remote->get()); result != 0) return last_failure(result, "flush");
    return arguments.verify ? compare(*remote, local.get(), size, arguments.block) : Status();
}

Status copy(const Arguments& arguments) {
    std::optional<Remote> from = parse_remote(arguments.from), to = parse_remote(arguments.to);
    if (from.has_value() == to.has_value())
        return Status::invalid(
            "exactly one of source and destination must be remote: xds:PATH or xds://HOST:PORT/PATH");
    const Remote& remote = from ? *from : *to;
    if (remote.path.empty()) return Status::invalid("the remote name has no path");
    Result<Context> context = Context::open(remote.address, arguments.agent, arguments.verify);
    if (!context.ok()) return context.status();
    return from ? download(arguments, *context, remote) : upload(arguments, *context, remote);
}

}  // namespace
}  // namespace fabric::xds::tools

int main(int argc, char** argv) {
    using namespace fabric::xds::tools;
    CLI::App app(
        "xdscp copies a file to or from an XDS target.\n"
        "A remote file is xds:PATH (the target is XDS_ADDRESS) or xds://HOST:PORT/PATH.\n"
        "A file that is fetched has its name only when it is whole; one that is sent is durable when xdscp ends.\n"
        "Exit status: 0 done, 1 failed, 2 wrong usage.");
    Arguments arguments;
    app.add_option("source", arguments.from, "file to read")->required();
    app.add_option("destination", arguments.to, "file to write")->required();
    app.add_flag("--verify", arguments.verify,
                 "check CRC32C of what the storage node read, then read both files again and compare them");
    app.add_flag("--progress,!--no-progress", arguments.progress,
                 "show a bar on stderr (default: if that is a terminal)");
    app.add_option("--depth", arguments.depth, "blocks in flight")->check(CLI::Range(1, 1024))->capture_default_str();
    app.add_option("--block", arguments.block_text, "bytes of a block")->capture_default_str();
    app.add_option("--agent", arguments.agent, "the node's agent socket (default: XDS_AGENT)");
    app.set_version_flag("--version", xds_version());
    arguments.progress = isatty(STDERR_FILENO) != 0;
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    std::optional<uint64_t> block = parse_size(arguments.block_text);
    if (!block || *block < 4096 || *block > (1 << 30)) {
        std::fprintf(stderr, "xdscp: --block %s: expected a size from 4KiB to 1GiB\n", arguments.block_text.c_str());
        return 2;
    }
    arguments.block = *block;
    fabric::Status status = copy(arguments);
    if (status.ok()) return 0;
    std::fprintf(stderr, "xdscp: %s -> %s: %s\n", arguments.from.c_str(), arguments.to.c_str(),
                 status.message().c_str());
    return 1;
}
