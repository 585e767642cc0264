// nfs-copy: copies a directory tree to or from an NFS server without mounting it.
//
//   nfs-copy put URL LOCAL REMOTE      LOCAL/* to REMOTE/* of the export
//   nfs-copy get URL REMOTE LOCAL
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstring>

#include "packaging/copy/nfs_tree.h"

int main(int argc, char** argv) {
    using fabric::Result;
    using fabric::copy::Amount;
    using fabric::copy::NfsTree;
    if (argc != 5 || (std::strcmp(argv[1], "put") != 0 && std::strcmp(argv[1], "get") != 0)) {
        fmt::print(stderr,
                   "usage: nfs-copy put URL LOCAL REMOTE | nfs-copy get URL REMOTE LOCAL\n"
                   "URL: nfs://SERVER/EXPORT?version=3|4&nfsport=N&mountport=N\n");
        return 2;
    }
    auto start = std::chrono::steady_clock::now();
    Result<NfsTree> tree = NfsTree::connect(argv[2]);
    bool put = std::strcmp(argv[1], "put") == 0;
    Result<Amount> amount = !tree.ok() ? Result<Amount>(tree.status())
                            : put      ? tree->put(argv[3], argv[4])
                                       : tree->get(argv[3], argv[4]);
    if (!amount.ok()) {
        fmt::print(stderr, "nfs-copy: {}\n", amount.status().message());
        return 1;
    }
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    fmt::print("{} files, {} bytes in {:.2f} s\n", amount->files, amount->bytes, seconds);
    return 0;
}
