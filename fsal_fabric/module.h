// The plugin: what there is once per process.
#pragma once

#include <memory>

#include "common/fs/filesystem.h"
#include "common/identity/identity.h"
#include "common/metrics_http.h"
#include "fsal_fabric/directory.h"
#include "fsal_fabric/ganesha.h"
#include "fsal_fabric/options.h"

namespace fabric::fsal {

struct Module : fsal_module {
    fsal_obj_ops object_ops{};
    Options options;
    fs::FilesystemTable filesystems;
    Directories directories;
    std::unique_ptr<identity::Pool> identities;
    std::unique_ptr<metrics::HttpServer> metrics_server;
};

Module& module();

}  // namespace fabric::fsal
