// The files below some paths, with the names under which the cache knows them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "burstbuffer/index/chunk_key.h"
#include "common/fs/filesystem.h"

namespace fabric::stage {

struct TreeFile {
    std::string path;
    fs::FileId id;
    index::FileVersion version;
};

struct Walk {
    fs::FilesystemTable& filesystems;
    // Called with every file system that something lies on, each time: who keeps the pointer can open its files.
    std::function<void(const fs::FilesystemPtr&)> met;
    // Symbolic links are followed, those in a folder too; else they are passed over, but a path given is always
    // followed.
    bool follow = false;
    // A regular file, in order of names within its folder. False: enough.
    std::function<bool(TreeFile&&)> file;
    // Something could not be looked at; the walk goes on.
    std::function<void(const std::string& path, const Status& why)> problem;
};

// The file, or everything below the folder. False: the visitor had enough.
bool walk(const std::string& path, const Walk& with);

}  // namespace fabric::stage
