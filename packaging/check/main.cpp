// export-check DIR: says why the gateway would refuse to export a directory (exit status 1), or nothing (0).
#include <fcntl.h>

#include <cstdio>

#include "common/fs/filesystem.h"

namespace {

fabric::Status check(const char* path) {
    fabric::UniqueFd directory(::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory) return fabric::Status::from_errno(errno, path);
    return fabric::fs::Filesystem::open(std::move(directory), path).status();
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fputs("usage: export-check DIR\n", stderr);
        return 2;
    }
    fabric::Status status = check(argv[1]);
    if (status.ok()) return 0;
    std::fprintf(stderr, "%s\n", status.message().c_str());
    return 1;
}
