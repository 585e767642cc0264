// What fabricctl asks for: staging, dropping, pinning, looking, comparing; how far draining is, and waiting for it.
#pragma once

#include "burstbuffer/cache/cache.h"
#include "burstbuffer/control/server.h"
#include "burstbuffer/stage/tree.h"
#include "burstbuffer/writeback/write_back.h"
#include "common/fs/filesystem.h"

namespace fabric::node {

// Thread safe. Requests and answers are described in control/ORDERS.md.
class Orders {
  public:
    Orders(cache::Cache& cache, writeback::WriteBack& write_back, fs::FilesystemTable& filesystems,
           io::BufferPool& pool, unsigned stage_workers)
        : cache_(cache),
          write_back_(write_back),
          filesystems_(filesystems),
          pool_(pool),
          stage_workers_(stage_workers) {}

    Result<control::Json> take(const control::Json& request, control::Reply& reply);

  private:
    using Json = control::Json;
    using Reply = control::Reply;
    Result<Json> status(const Json& request, Reply& reply);
    Json disks() const;
    Json datasets() const;
    Json rules() const;
    Result<Json> stage(const Json& request, Reply& reply);
    Status drain_before_staging(const Json& request, Reply& reply);
    Result<Json> list(const Json& request, Reply& reply);
    Result<Json> verify(const Json& request, Reply& reply);
    // drain_orders.cpp
    struct Undrained;
    Result<Undrained> undrained(const Json& request, Reply& reply, bool tell);
    Result<Json> drained(const Json& request, Reply& reply, bool hurry);
    Result<Json> flush(const Json& request, Reply& reply);
    Result<Json> settle(const Json& request);
    // For each file below the paths; the answer counts files, chunks and failures.
    using Work = std::function<Result<uint64_t>(const stage::TreeFile&)>;
    Result<Json> for_each(const Json& request, Reply& reply, const Work& work);

    cache::Cache& cache_;
    writeback::WriteBack& write_back_;
    fs::FilesystemTable& filesystems_;
    io::BufferPool& pool_;
    const unsigned stage_workers_;
};

}  // namespace fabric::node
