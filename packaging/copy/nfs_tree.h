// A directory tree on an NFS server, through libnfs: no mount and no kernel client needed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "common/result.h"

struct nfs_context;

namespace fabric::copy {

struct Amount {
    uint64_t files = 0;
    uint64_t bytes = 0;
};

// One connection; not thread safe. Regular files and directories only: anything else in a tree is an error that names
// it.
class NfsTree {
  public:
    // `url`: nfs://SERVER/EXPORT?version=3|4&nfsport=N&mountport=N (libnfs' form).
    static Result<NfsTree> connect(const std::string& url);

    // Copies the files below `local` into `remote` (a path inside the export, made when it is missing; existing files
    // are overwritten). Each file is fsynced.
    Result<Amount> put(const std::filesystem::path& local, const std::string& remote);
    // Copies the files below `remote` into `local`, which is made when it is missing. Names that a server must not send
    // ("..", or with a slash) are an error.
    Result<Amount> get(const std::string& remote, const std::filesystem::path& local);

  private:
    struct Close {
        void operator()(nfs_context* context) const;
    };
    using Context = std::unique_ptr<nfs_context, Close>;
    explicit NfsTree(Context context) : context_(std::move(context)) {}

    Status error(int negative_errno, const std::string& what) const;
    Status put_file(const std::filesystem::path& local, const std::string& remote, Amount& amount);
    Status get_file(const std::string& remote, const std::filesystem::path& local, Amount& amount);
    Status put_below(const std::filesystem::path& local, const std::string& remote, int depth, Amount& amount);
    Status get_below(const std::string& remote, const std::filesystem::path& local, int depth, Amount& amount);

    Context context_;
};

}  // namespace fabric::copy
