#include "xds/target/target.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "common/io/topology.h"
#include "common/log.h"
#include "xds/transport/tcp/tcp_address.h"
#include "xds/transport/tcp/tcp_connection.h"

namespace fabric::xds::target {
namespace {

constexpr size_t remembered_nonces = 1 << 17;
constexpr uint64_t second_ns = 1'000'000'000;

std::string host_name() {
    char name[256] = {};
    return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

// Without a key file capabilities are worth something for this process's life only.
Result<std::shared_ptr<security::Keyring>> own_keys() {
    std::string digits;
    for (int half = 0; half < 2; ++half)
        for (std::byte byte : security::random_id()) {
            digits += "0123456789abcdef"[static_cast<unsigned>(byte) >> 4];
            digits += "0123456789abcdef"[static_cast<unsigned>(byte) & 15];
        }
    return security::Keyring::parse("0 " + digits, "a key of this process");
}

io::BufferPool::Options pool_options(const Config& config, transport::VerbsDomains& domains) {
    io::BufferPool::Options options;
    options.before_unmap = [&domains](const void* block) { domains.forget_block(block); };
    // The target's own budget is the limit; the pool's is not to be met.
    options.limit = config.bytes_in_flight * 2;
    options.reserved_huge_pages = config.reserved_huge_pages;
    return options;
}

}  // namespace

uint64_t wall_clock_ns() {
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return static_cast<uint64_t>(now.tv_sec) * second_ns + static_cast<uint64_t>(now.tv_nsec);
}

Target::Target(const Config& config)
    : config_(config), replays_(config.clock_seconds * second_ns, remembered_nonces), budget_(config.bytes_in_flight) {
    accept_.target = retry_.target = this;
    retry_.expired = [](transport::Timer& timer) { static_cast<Retry&>(timer).target->accept_next(); };
    accept_.complete = [](transport::Operation& operation, int result) {
        static_cast<Accept&>(operation).target->accepted(result);
    };
}

Result<std::unique_ptr<Target>> Target::start(const Config& config, ReadCache* cache, WriteBehind* behind) {
    std::unique_ptr<Target> target(new Target(config));
    target->cache_ = cache;
    target->behind_ = behind;
    FABRIC_RETURN_IF_ERROR(target->set_up());
    return target;
}

Status Target::set_up() {
    if (config_.node.empty()) config_.node = host_name().substr(0, wire::max_node);
    if (config_.credits == 0) return Status::config("credits: at least 1 is needed");
    security::Id instance = security::random_id();
    std::memcpy(&instance_, instance.data(), sizeof instance_);
    Result<std::shared_ptr<security::Keyring>> keys =
        open_to_all() ? own_keys() : security::Keyring::load(config_.key_file);
    if (!keys.ok()) return keys.status();
    keys_ = std::move(*keys);
    Result<std::unique_ptr<Tree>> tree = Tree::open(config_, behind_);
    if (!tree.ok()) return tree.status();
    tree_ = std::move(*tree);
    unsigned lanes = config_.lanes;
    if (lanes == 0) lanes = static_cast<unsigned>(std::clamp(sysconf(_SC_NPROCESSORS_ONLN), 1L, 16L));
    io::EngineOptions options;
    options.lanes = lanes;
    options.bytes_in_flight = config_.bytes_in_flight;
    Result<std::unique_ptr<io::Engine>> engine = io::Engine::start(options);
    if (!engine.ok()) return engine.status();
    engine_ = std::move(*engine);
    workers_ = std::make_unique<Workers>(config_.workers);
    Result<UniqueFd> listener = transport::listen_tcp(config_.listen);
    if (!listener.ok()) return listener.status();
    listener_ = std::move(*listener);
    Result<int> port = transport::port_of(listener_.get());
    if (!port.ok()) return port.status();
    port_ = *port;
    FABRIC_RETURN_IF_ERROR(start_lanes(lanes));
    if (Status status = listen_rdma(); !status.ok()) {
        if (config_.rdma == Rdma::required) return status;
        rdma_ = status;
        if (config_.rdma == Rdma::automatic) log::info("XDS target {}: TCP alone: {}", config_.node, status.message());
    }
    {
        std::lock_guard lock(mutex_);
        accepting_ = true;
    }
    lanes_[0]->call([&] { accept_next(); });
    return {};
}

// A lane's thread, and the memory of its requests, are of one NUMA node. With one node there is nothing to bind.
Status Target::start_lanes(unsigned count) {
    std::vector<io::NumaNode> nodes = io::numa_nodes();
    std::vector<size_t> node_of_lane = io::spread(nodes, count);
    bool several = nodes.size() > 1;
    std::map<size_t, io::BufferPool*> pools;
    for (unsigned i = 0; i < count; ++i) {
        Result<std::unique_ptr<transport::Reactor>> lane = transport::Reactor::start("xds_lane_" + std::to_string(i));
        if (!lane.ok()) return lane.status();
        const io::NumaNode& node = nodes[node_of_lane[i]];
        if (several && !(*lane)->call([&] { return io::bind_thread(node); }))
            log::warn("XDS target {}: lane {} cannot be bound to NUMA node {}", config_.node, i, node.number);
        io::BufferPool*& pool = pools[node_of_lane[i]];
        if (pool == nullptr) {
            io::BufferPool::Options options = pool_options(config_, domains_);
            options.numa_node = several ? node.number : -1;
            pool = pools_.emplace_back(std::make_unique<io::BufferPool>(options)).get();
        }
        pool_of_lane_.push_back(pool);
        lanes_.push_back(std::move(*lane));
    }
    return {};
}

// At the port that TCP got.
Status Target::listen_rdma() {
    if (config_.rdma == Rdma::off) return {Code::config, ENOTSUP, "RDMA is switched off in the configuration"};
    FABRIC_RETURN_IF_ERROR(transport::rdma_present());
    for (auto& lane : lanes_) {
        auto opened = lane->call([&] { return transport::VerbsLane::open(*lane); });
        if (!opened.ok()) return opened.status();
        rdma_lanes_.push_back(std::move(*opened));
    }
    std::string host = config_.listen.substr(0, config_.listen.rfind(':'));
    auto listener = lanes_[0]->call([&] {
        return transport::VerbsListener::listen(
            *rdma_lanes_[0], host + ":" + std::to_string(port_),
            [this](transport::VerbsRequest request) { rdma_arrived(std::move(request)); });
    });
    if (!listener.ok()) return listener.status();
    rdma_listener_ = std::move(*listener);
    return {};
}

Target::~Target() {
    stop_accepting();
    for_each_session([](Session& session, uint64_t) { session.close({}); }, 0);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return sessions_.empty(); });
    lock.unlock();
    // The lanes themselves end before what they watched is closed.
    for (size_t i = 0; i < rdma_lanes_.size(); ++i) lanes_[i]->call([&] { rdma_lanes_[i]->stop(); });
}

// ---- connections ----

// Begins a session on its lane: with a socket, or with a request over RDMA.
struct Target::Start : transport::Task {
    Target* target = nullptr;
    Session* session = nullptr;
    size_t lane = 0;
    UniqueFd socket;
    transport::VerbsRequest request;

    void begin() {
        if (request.id == nullptr)
            return session->start(
                std::make_unique<transport::TcpConnection>(*target->lanes_[lane], *session, std::move(socket)));
        transport::VerbsOptions options;
        options.queues = target->config_.rdma_queues;
        // Requests are bounded by credits; the rest is for messages that cost none.
        options.receives = unsigned{target->config_.credits} + 64;
        auto connection =
            transport::accept(std::move(request), *target->rdma_lanes_[lane], *session, target->domains_, options);
        if (connection.ok()) return session->start(std::move(*connection));
        log::warn("XDS target {}: {}", target->config_.node, connection.status().message());
        target->remove(*session);
    }
};

Session* Target::admit(size_t& lane) {
    if (sessions_.size() >= config_.connections) {
        log::warn("XDS target {}: {} connections are open, which is the limit; one more was refused", config_.node,
                  sessions_.size());
        return nullptr;
    }
    lane = next_lane_++ % lanes_.size();
    sessions_.push_back({std::make_unique<Session>(*this, *lanes_[lane], *pool_of_lane_[lane]), lanes_[lane].get()});
    return sessions_.back().session.get();
}

void Target::rdma_arrived(transport::VerbsRequest request) {
    std::lock_guard lock(mutex_);
    if (!accepting_) return transport::refuse(request, wire::RdmaRefusalCause::draining);
    size_t lane = 0;
    Session* session = admit(lane);
    if (session == nullptr) return transport::refuse(request, wire::RdmaRefusalCause::connections);
    auto* start = new Start;
    start->target = this;
    start->session = session;
    start->lane = lane;
    start->request = std::move(request);
    start->run = [](transport::Task& task) { std::unique_ptr<Start>(static_cast<Start*>(&task))->begin(); };
    lanes_[lane]->post(*start);
}

void Target::accept_next() {
    lanes_[0]->submit(accept_, [&](io_uring_sqe* sqe) {
        io_uring_prep_accept(sqe, listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    });
}

void Target::accepted(int result) {
    UniqueFd socket(result);
    std::unique_lock lock(mutex_);
    if (!accepting_) {
        listener_.reset();
        changed_.notify_all();
        return;
    }
    if (result < 0) {
        // Out of descriptors or memory: others have to give some back first.
        log::warn("XDS target {}: accept: {}", config_.node, strerror(-result));
        retry_.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
        lanes_[0]->arm(retry_);
        return;
    }
    accept_next();
    size_t lane = 0;
    Session* session = admit(lane);
    if (session == nullptr) return;
    auto* start = new Start;
    start->target = this;
    start->session = session;
    start->lane = lane;
    start->socket = std::move(socket);
    start->run = [](transport::Task& task) { std::unique_ptr<Start>(static_cast<Start*>(&task))->begin(); };
    lanes_[lane]->post(*start);
}

void Target::remove(Session& session) {
    std::lock_guard lock(mutex_);
    auto found = std::find_if(sessions_.begin(), sessions_.end(),
                              [&](const Entry& entry) { return entry.session.get() == &session; });
    if (found != sessions_.end()) sessions_.erase(found);
    changed_.notify_all();
}

// Calls on each session's own thread. The lane's tasks run in order and a session is removed on its lane, so one that
// is in the list when the lane looks is alive.
void Target::for_each_session(void (*call)(Session&, uint64_t), uint64_t argument) {
    for (auto& lane : lanes_)
        lane->call([&] {
            std::vector<Session*> here;
            {
                std::lock_guard lock(mutex_);
                for (const Entry& entry : sessions_)
                    if (entry.reactor == lane.get()) here.push_back(entry.session.get());
            }
            for (Session* session : here) {
                bool alive = false;
                {
                    std::lock_guard lock(mutex_);
                    for (const Entry& entry : sessions_) alive = alive || entry.session.get() == session;
                }
                if (alive) call(*session, argument);
            }
        });
}

size_t Target::connections() const {
    std::lock_guard lock(mutex_);
    return sessions_.size();
}

void Target::stop_accepting() {
    if (lanes_.empty()) return;
    {
        std::lock_guard lock(mutex_);
        if (!accepting_) return;
        accepting_ = false;
    }
    lanes_[0]->call([&] {
        rdma_listener_.reset();
        if (accept_.busy) return lanes_[0]->cancel(accept_);
        lanes_[0]->disarm(retry_);
        std::lock_guard lock(mutex_);
        listener_.reset();
    });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !listener_; });
}

void Target::drain(std::chrono::milliseconds limit) {
    draining_.store(true);
    stop_accepting();
    for_each_session([](Session& session, uint64_t) { session.drain(); }, 0);
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, limit, [&] { return sessions_.empty(); });
}

Status Target::reload_keys() {
    if (open_to_all()) return {};
    Result<std::shared_ptr<security::Keyring>> fresh = security::Keyring::load(config_.key_file);
    if (!fresh.ok()) return fresh.status();
    keys_->replace(**fresh);
    return {};
}

void Target::set_map_epoch(uint64_t epoch) {
    map_epoch_.store(epoch);
    for_each_session([](Session& session, uint64_t fresh) { session.recall(fresh); }, epoch);
}

}  // namespace fabric::xds::target
