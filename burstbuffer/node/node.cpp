#include "burstbuffer/node/node.h"

#include "common/io/transfer_metrics.h"
#include "common/log.h"

namespace fabric::node {

Result<std::unique_ptr<Node>> Node::start(const Settings& settings, fs::FilesystemTable& filesystems) {
    std::unique_ptr<Node> node(new Node);
    Result<std::unique_ptr<io::Engine>> engine = io::Engine::start({.lanes = settings.lanes});
    if (!engine.ok()) return engine.status();
    node->engine_ = std::move(engine).value();
    node->pool_ = std::make_unique<io::BufferPool>(io::BufferPool::Options{.limit = settings.buffer_memory});
    Result<std::unique_ptr<disks::Disks>> disks = disks::Disks::open(settings.disks, *node->engine_, *node->pool_);
    if (!disks.ok()) return disks.status();
    node->disks_ = std::move(disks).value();
    auto open = [&filesystems](const fs::FileId& file, int flags) -> Result<UniqueFd> {
        fs::FilesystemPtr filesystem = filesystems.find(file.filesystem());
        if (filesystem == nullptr) return Status::from_errno(ESTALE, "the file's file system is not in use");
        return filesystem->open(file, flags);
    };
    node->backing_ = std::make_unique<cache::FileBacking>(open, settings.backing_threads);
    node->cache_ = std::make_unique<cache::Cache>(*node->disks_, *node->backing_, *node->pool_, settings.cache);
    Result<std::unique_ptr<writeback::WriteBack>> write_back = writeback::WriteBack::start(
        *node->disks_, *node->pool_, filesystems, settings.write_back,
        [cache = node->cache_.get()] { cache->make_room(); },
        [] { return io::transferred(io::Direction::read) + cache::Cache::reads(); });
    if (!write_back.ok()) return write_back.status();
    node->write_back_ = std::move(write_back).value();
    node->orders_ =
        std::make_unique<Orders>(*node->cache_, *node->write_back_, filesystems, *node->pool_, settings.stage_workers);
    Result<std::unique_ptr<control::Server>> server = control::Server::start(
        settings.socket, [orders = node->orders_.get()](const control::Json& request, control::Reply& reply) {
            return orders->take(request, reply);
        });
    if (!server.ok()) return server.status();
    node->server_ = std::move(server).value();
    for (const auto& disk : node->disks_->all()) {
        store::Segments::Usage usage = disk->store().usage();
        log::info("burst buffer: {}: {} records, {} of {} bytes", disk->folder(), usage.records, usage.live,
                  usage.capacity);
    }
    return node;
}

Node::~Node() = default;

}  // namespace fabric::node
