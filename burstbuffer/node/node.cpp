#include "burstbuffer/node/node.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <climits>

#include "common/identity/capabilities.h"
#include "common/io/transfer_metrics.h"
#include "common/log.h"

namespace fabric::node {

namespace {

// When memory is short the kernel writes pages of the mount out to us, and waits for that: we must not wait for memory
// that comes free only then. Threads that are started from here on inherit the flag (prctl(2), PR_SET_IO_FLUSHER).
Status prepare_for_own_mount() {
    if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0) {
        return Status::from_errno(errno, "node.self_mounted: mlockall (needs CAP_IPC_LOCK or LimitMEMLOCK=infinity)");
    }
    // The gateway goes without this capability otherwise, since quotas do not hold for who has it.
    bool raised = identity::raise_capability(CAP_SYS_RESOURCE).ok();
    int error = prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) == 0 ? 0 : errno;
    if (raised) FABRIC_RETURN_IF_ERROR(identity::drop_capability(CAP_SYS_RESOURCE));
    if (error == 0) return {};
    return Status::from_errno(error, "node.self_mounted: prctl(PR_SET_IO_FLUSHER) (needs CAP_SYS_RESOURCE)");
}

// The first one whose path matches the file's.
std::optional<size_t> dataset_of(const std::vector<cache::Dataset>& all, const cache::FileBacking::Opener& open,
                                 const fs::FileId& file) {
    Result<UniqueFd> fd = open(file, O_RDONLY);
    char path[PATH_MAX];
    ssize_t length = fd.ok() ? readlink(fmt::format("/proc/self/fd/{}", fd->get()).c_str(), path, sizeof path) : -1;
    if (length <= 0) return std::nullopt;
    for (size_t i = 0; i < all.size(); ++i) {
        if (writeback::matches(all[i].path, {path, static_cast<size_t>(length)})) return i;
    }
    return std::nullopt;
}

}  // namespace

Result<std::unique_ptr<Node>> Node::start(const Settings& settings, fs::FilesystemTable& filesystems) {
    if (settings.self_mounted) FABRIC_RETURN_IF_ERROR(prepare_for_own_mount());
    std::unique_ptr<Node> node(new Node);
    Result<std::unique_ptr<io::Engine>> engine = io::Engine::start({.lanes = settings.lanes});
    if (!engine.ok()) return engine.status();
    node->engine_ = std::move(engine).value();
    node->pool_ = std::make_unique<io::BufferPool>(io::BufferPool::Options{.limit = settings.buffer_memory});
    Result<std::vector<disks::DiskOptions>> with_engines = node->give_engines(settings.disks);
    if (!with_engines.ok()) return with_engines.status();
    Result<std::unique_ptr<disks::Disks>> disks = disks::Disks::open(*with_engines, *node->engine_, *node->pool_);
    if (!disks.ok()) return disks.status();
    node->disks_ = std::move(disks).value();
    auto open = [&filesystems](const fs::FileId& file, int flags) -> Result<UniqueFd> {
        fs::FilesystemPtr filesystem = filesystems.find(file.filesystem());
        if (filesystem == nullptr) return Status::from_errno(ESTALE, "the file's file system is not in use");
        return filesystem->open(file, flags);
    };
    node->backing_ = std::make_unique<cache::FileBacking>(open, settings.backing_threads);
    cache::Cache::Options cache_options = settings.cache;
    if (!settings.datasets.empty()) {
        auto find = [all = settings.datasets, open](const fs::FileId& file) { return dataset_of(all, open, file); };
        node->datasets_ = std::make_unique<cache::Datasets>(settings.datasets, find);
        cache_options.flights.datasets = node->datasets_.get();
    }
    node->cache_ = std::make_unique<cache::Cache>(*node->disks_, *node->backing_, *node->pool_, cache_options);
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

// One disk has the node's; several share its lanes out.
Result<std::vector<disks::DiskOptions>> Node::give_engines(std::vector<disks::DiskOptions> disks) {
    if (disks.size() < 2) return disks;
    auto lanes = static_cast<unsigned>(std::max<size_t>(engine_->lanes() / disks.size(), 1));
    for (disks::DiskOptions& disk : disks) {
        Result<std::unique_ptr<io::Engine>> engine = io::Engine::start({.lanes = lanes});
        if (!engine.ok()) return engine.status();
        disk.engine = engine->get();
        disk_engines_.push_back(std::move(engine).value());
    }
    return disks;
}

Node::~Node() = default;

}  // namespace fabric::node
