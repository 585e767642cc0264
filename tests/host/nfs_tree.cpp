// Copies trees through NFS with libnfs: a client that is not ours and needs no kernel.
//
//     nfs_tree in  URL FROM-FOLDER NAME     copies the local folder to /NAME of the export
//     nfs_tree out URL NAME TO-FOLDER       copies it back, by a new connection
//
// URL as libnfs has it, e.g. nfs://127.0.0.1/export?version=4&nfsport=2049. Regular files, folders and symbolic links.
#include <dirent.h>
#include <fcntl.h>
#include <nfsc/libnfs.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/unique_fd.h"

namespace {

using fabric::UniqueFd;

[[noreturn]] void die(const std::string& what, const std::string& why) {
    std::fprintf(stderr, "nfs_tree: %s: %s\n", what.c_str(), why.c_str());
    std::exit(1);
}

class Export {
  public:
    explicit Export(const char* url) : nfs_(nfs_init_context()) {
        if (!nfs_) die(url, "no context");
        std::unique_ptr<nfs_url, decltype(&nfs_destroy_url)> parsed(nfs_parse_url_dir(nfs_, url), nfs_destroy_url);
        if (!parsed) die(url, nfs_get_error(nfs_));
        check(nfs_mount(nfs_, parsed->server, parsed->path), url);
    }
    ~Export() { nfs_destroy_context(nfs_); }
    Export(const Export&) = delete;
    Export& operator=(const Export&) = delete;

    nfs_context* get() const { return nfs_; }
    int check(int result, const std::string& what) const {
        if (result < 0) die(what, std::string(nfs_get_error(nfs_)) + " (" + std::strerror(-result) + ")");
        return result;
    }

  private:
    nfs_context* nfs_;
};

class File {
  public:
    File(const Export& where, const std::string& path, int flags) : export_(where) {
        export_.check(flags & O_CREAT ? nfs_creat(export_.get(), path.c_str(), 0644, &file_)
                                      : nfs_open(export_.get(), path.c_str(), flags, &file_),
                      path);
    }
    ~File() { export_.check(nfs_close(export_.get(), file_), "close"); }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    nfsfh* get() const { return file_; }

  private:
    const Export& export_;
    nfsfh* file_ = nullptr;
};

constexpr size_t piece = 1 << 20;

void file_in(const Export& to, const std::filesystem::path& from, const std::string& name) {
    UniqueFd source(open(from.c_str(), O_RDONLY | O_CLOEXEC));
    if (source.get() < 0) die(from, std::strerror(errno));
    File target(to, name, O_CREAT);
    std::vector<char> buffer(piece);
    uint64_t offset = 0;
    for (ssize_t have; (have = read(source.get(), buffer.data(), buffer.size())) != 0;) {
        if (have < 0) die(from, std::strerror(errno));
        for (ssize_t done = 0; done < have;) {
            int wrote = to.check(nfs_pwrite(to.get(), target.get(), offset, have - done, buffer.data() + done), name);
            if (wrote == 0) die(name, "a write of nothing");
            done += wrote;
            offset += wrote;
        }
    }
    to.check(nfs_fsync(to.get(), target.get()), name);
}

void tree_in(const Export& to, const std::filesystem::path& from, const std::string& name) {
    to.check(nfs_mkdir(to.get(), name.c_str()), name);
    for (const auto& entry : std::filesystem::directory_iterator(from)) {
        std::string path = name + "/" + entry.path().filename().string();
        if (entry.is_symlink())
            to.check(nfs_symlink(to.get(), std::filesystem::read_symlink(entry).c_str(), path.c_str()), path);
        else if (entry.is_directory())
            tree_in(to, entry, path);
        else
            file_in(to, entry, path);
    }
}

void file_out(const Export& from, const std::string& name, const std::filesystem::path& to) {
    File source(from, name, O_RDONLY);
    UniqueFd target(open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (target.get() < 0) die(to, std::strerror(errno));
    std::vector<char> buffer(piece);
    uint64_t offset = 0;
    while (int have = from.check(nfs_pread(from.get(), source.get(), offset, buffer.size(), buffer.data()), name)) {
        for (int done = 0; done < have;) {
            ssize_t wrote = write(target.get(), buffer.data() + done, have - done);
            if (wrote < 0) die(to, std::strerror(errno));
            done += static_cast<int>(wrote);
        }
        offset += have;
    }
}

void tree_out(const Export& from, const std::string& name, const std::filesystem::path& to) {
    std::filesystem::create_directory(to);
    nfsdir* folder = nullptr;
    from.check(nfs_opendir(from.get(), name.c_str(), &folder), name);
    std::vector<std::pair<std::string, uint32_t>> entries;
    while (nfsdirent* entry = nfs_readdir(from.get(), folder)) {
        std::string text = entry->name;
        if (text != "." && text != "..") entries.emplace_back(text, entry->mode & S_IFMT);
    }
    nfs_closedir(from.get(), folder);
    for (const auto& [text, unused] : entries) {
        std::string path = name + "/" + text;
        nfs_stat_64 status{};
        from.check(nfs_lstat64(from.get(), path.c_str(), &status), path);
        switch (status.nfs_mode & S_IFMT) {
            case S_IFDIR:
                tree_out(from, path, to / text);
                break;
            case S_IFLNK: {
                std::vector<char> target(4097);
                from.check(nfs_readlink(from.get(), path.c_str(), target.data(), 4096), path);
                std::filesystem::create_symlink(target.data(), to / text);
                break;
            }
            default:
                file_out(from, path, to / text);
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 5) die("usage", "nfs_tree in URL FROM-FOLDER NAME | nfs_tree out URL NAME TO-FOLDER");
    Export share(argv[2]);
    if (std::string(argv[1]) == "in")
        tree_in(share, argv[3], std::string("/") + argv[4]);
    else
        tree_out(share, std::string("/") + argv[3], argv[4]);
    return 0;
}
