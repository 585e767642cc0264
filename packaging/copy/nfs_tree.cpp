#include "packaging/copy/nfs_tree.h"

#include <fcntl.h>
#include <nfsc/libnfs.h>
#include <sys/stat.h>

#include <chrono>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "common/unique_fd.h"

namespace fabric::copy {
namespace {

namespace fs = std::filesystem;

constexpr size_t piece = 1 << 20;  // bytes a call; libnfs cuts it to what the server takes
constexpr int max_depth = 64;      // a server that sends a tree without end stops here
constexpr int timeout_ms = 60'000;

class File {
  public:
    File(nfs_context* context, nfsfh* handle) : context_(context), handle_(handle) {}
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    ~File() {
        if (handle_ != nullptr) nfs_close(context_, handle_);
    }
    nfsfh* get() const { return handle_; }
    int close() { return nfs_close(context_, std::exchange(handle_, nullptr)); }

  private:
    nfs_context* context_;
    nfsfh* handle_;
};

// A server in its grace period says "try later" (NFS3ERR_JUKEBOX, NFS4ERR_DELAY; libnfs: -EAGAIN): so we do, for longer
// than such a period lasts.
template <typename Call>
int patiently(Call call) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    int result = call();
    while (result == -EAGAIN && std::chrono::steady_clock::now() < until) {
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
        result = call();
    }
    return result;
}

std::string join(const std::string& directory, const std::string& name) {
    return directory.ends_with('/') ? directory + name : directory + "/" + name;
}

Status too_deep(const std::string& path) { return Status::invalid(path + ": deeper than 64 levels"); }
Status no_file(const std::string& path) { return Status::invalid(path + " is neither a file nor a directory"); }

// Everything of `bytes` at the descriptor's position.
Status write_all(int fd, const std::vector<char>& bytes, size_t size, const fs::path& path) {
    for (size_t done = 0; done < size;) {
        ssize_t n = ::write(fd, bytes.data() + done, size - done);
        if (n < 0 && errno != EINTR) return Status::from_errno(errno, "write " + path.string());
        if (n > 0) done += n;
    }
    return {};
}

}  // namespace

void NfsTree::Close::operator()(nfs_context* context) const { nfs_destroy_context(context); }

Status NfsTree::error(int negative_errno, const std::string& what) const {
    return {Code::io, -negative_errno, what + ": " + nfs_get_error(context_.get())};
}

Result<NfsTree> NfsTree::connect(const std::string& url) {
    NfsTree tree{Context(nfs_init_context())};
    if (!tree.context_) return Status::from_errno(ENOMEM, "nfs_init_context");
    nfs_context* context = tree.context_.get();
    std::unique_ptr<nfs_url, void (*)(nfs_url*)> parsed(nfs_parse_url_dir(context, url.c_str()), nfs_destroy_url);
    if (!parsed) return Status::invalid(url + " is not an NFS URL: " + nfs_get_error(context));
    nfs_set_timeout(context, timeout_ms);
    nfs_set_autoreconnect(context, 0);
    if (int error = nfs_mount(context, parsed->server, parsed->path)) return tree.error(error, "mount " + url);
    return tree;
}

Status NfsTree::put_file(const fs::path& local, const std::string& remote, Amount& amount) {
    UniqueFd source(::open(local.c_str(), O_RDONLY | O_CLOEXEC));
    if (!source) return Status::from_errno(errno, "open " + local.string());
    nfs_context* context = context_.get();
    nfsfh* handle = nullptr;
    int failed =
        patiently([&] { return nfs_open2(context, remote.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644, &handle); });
    if (failed != 0) return error(failed, "create " + remote);
    File target(context, handle);
    std::vector<char> buffer(piece);
    for (;;) {
        ssize_t size = ::read(source.get(), buffer.data(), buffer.size());
        if (size < 0) return Status::from_errno(errno, "read " + local.string());
        if (size == 0) break;
        for (ssize_t done = 0; done < size;) {
            int n = nfs_write(context, target.get(), size - done, buffer.data() + done);
            if (n <= 0) return error(n, "write " + remote);
            done += n;
        }
        amount.bytes += size;
    }
    failed = nfs_fsync(context, target.get());
    if (failed != 0) return error(failed, "fsync " + remote);
    failed = target.close();
    if (failed != 0) return error(failed, "close " + remote);
    ++amount.files;
    return {};
}

Status NfsTree::get_file(const std::string& remote, const fs::path& local, Amount& amount) {
    nfs_context* context = context_.get();
    nfsfh* handle = nullptr;
    int failed = patiently([&] { return nfs_open(context, remote.c_str(), O_RDONLY, &handle); });
    if (failed != 0) return error(failed, "open " + remote);
    File source(context, handle);
    UniqueFd target(::open(local.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644));
    if (!target) return Status::from_errno(errno, "create " + local.string());
    std::vector<char> buffer(piece);
    for (;;) {
        int size = nfs_read(context, source.get(), buffer.size(), buffer.data());
        if (size < 0) return error(size, "read " + remote);
        if (size == 0) break;
        FABRIC_RETURN_IF_ERROR(write_all(target.get(), buffer, size, local));
        amount.bytes += size;
    }
    ++amount.files;
    return {};
}

Status NfsTree::put_below(const fs::path& local, const std::string& remote, int depth, Amount& amount) {
    if (depth == max_depth) return too_deep(remote);
    int made = nfs_mkdir2(context_.get(), remote.c_str(), 0755);
    if (made != 0 && made != -EEXIST) return error(made, "mkdir " + remote);
    std::error_code failed;
    for (fs::directory_iterator entry(local, failed), end; !failed && entry != end; entry.increment(failed)) {
        std::string target = join(remote, entry->path().filename().string());
        fs::file_status type = entry->symlink_status(failed);
        if (failed) break;
        if (type.type() == fs::file_type::directory)
            FABRIC_RETURN_IF_ERROR(put_below(entry->path(), target, depth + 1, amount));
        else if (type.type() == fs::file_type::regular)
            FABRIC_RETURN_IF_ERROR(put_file(entry->path(), target, amount));
        else
            return no_file(entry->path().string());
    }
    return failed ? Status::from_errno(failed.value(), "read directory " + local.string()) : Status();
}

Status NfsTree::get_below(const std::string& remote, const fs::path& local, int depth, Amount& amount) {
    if (depth == max_depth) return too_deep(remote);
    std::error_code failed;
    fs::create_directories(local, failed);
    if (failed) return Status::from_errno(failed.value(), "mkdir " + local.string());
    nfs_context* context = context_.get();
    nfsdir* directory = nullptr;
    if (int error_number = nfs_opendir(context, remote.c_str(), &directory))
        return error(error_number, "read directory " + remote);
    std::vector<std::pair<std::string, mode_t>> entries;
    while (const nfsdirent* entry = nfs_readdir(context, directory)) entries.emplace_back(entry->name, entry->mode);
    nfs_closedir(context, directory);
    for (const auto& [name, mode] : entries) {
        if (name == "." || name == "..") continue;
        if (name.empty() || name.find('/') != std::string::npos)
            return Status::invalid("the server sent the name \"" + name + "\" in " + remote);
        if (S_ISDIR(mode))
            FABRIC_RETURN_IF_ERROR(get_below(join(remote, name), local / name, depth + 1, amount));
        else if (S_ISREG(mode))
            FABRIC_RETURN_IF_ERROR(get_file(join(remote, name), local / name, amount));
        else
            return no_file(join(remote, name));
    }
    return {};
}

Result<Amount> NfsTree::put(const fs::path& local, const std::string& remote) {
    Amount amount;
    FABRIC_RETURN_IF_ERROR(put_below(local, remote, 0, amount));
    return amount;
}

Result<Amount> NfsTree::get(const std::string& remote, const fs::path& local) {
    Amount amount;
    FABRIC_RETURN_IF_ERROR(get_below(remote, local, 0, amount));
    return amount;
}

}  // namespace fabric::copy
