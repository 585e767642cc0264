// The burst buffer of one node: its disks, its cache, and who gives it orders. A library: fabricd and the NFS server's
// plug-in are its hosts.
#pragma once

#include <memory>
#include <vector>

#include "burstbuffer/cache/cache.h"
#include "burstbuffer/cache/file_backing.h"
#include "burstbuffer/control/server.h"
#include "burstbuffer/node/orders.h"
#include "burstbuffer/node/settings.h"
#include "burstbuffer/writeback/write_back.h"
#include "common/fs/filesystem.h"

namespace fabric::node {

class Node {
  public:
    // `filesystems` is the host's, and outlives the node: files of the file systems in it can be cached.
    static Result<std::unique_ptr<Node>> start(const Settings& settings, fs::FilesystemTable& filesystems);
    // Orders under way are given up; what is not drained is drained or kept, as the settings say. No read or write may
    // be in flight.
    ~Node();

    cache::Cache& cache() { return *cache_; }
    writeback::WriteBack& write_back() { return *write_back_; }
    const std::string& socket() const { return server_->path(); }

  private:
    Node() = default;
    Result<std::vector<disks::DiskOptions>> give_engines(std::vector<disks::DiskOptions> disks);

    std::unique_ptr<io::Engine> engine_;
    std::vector<std::unique_ptr<io::Engine>> disk_engines_;
    std::unique_ptr<io::BufferPool> pool_;
    std::unique_ptr<disks::Disks> disks_;
    std::unique_ptr<cache::FileBacking> backing_;
    std::unique_ptr<cache::Datasets> datasets_;  // null: there are none
    std::unique_ptr<cache::Cache> cache_;
    std::unique_ptr<writeback::WriteBack> write_back_;
    std::unique_ptr<Orders> orders_;
    std::unique_ptr<control::Server> server_;
};

}  // namespace fabric::node
