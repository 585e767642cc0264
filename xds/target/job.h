// One request of a client on its way through a target. A session keeps its jobs and uses them again, so that a request
// allocates nothing once as many have been in flight before.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "common/io/buffer_pool.h"
#include "common/io/request.h"
#include "xds/target/read_cache.h"
#include "xds/target/tree.h"
#include "xds/target/workers.h"
#include "xds/transport/connection.h"

namespace fabric::xds::target {

class Session;

struct Job {
    // One more than a largest request fills when it starts and ends within a block.
    static constexpr size_t most_buffers = wire::max_data / (1 << 20) + 1;
    using Step = void (*)(Job&);

    // The embedded parts know their job.
    template <typename Base>
    struct Part : Base {
        Job* job = nullptr;
    };

    explicit Job(Session& owner) : session(owner) {
        for (auto& part : cached) part.job = this;
        reply.job = data.job = transfer.job = room.job = back.job = blocking.job = stall.job = this;
    }
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;

    Session& session;
    uint64_t request = 0;
    wire::Type type = wire::Type::error;
    bool cancelled = false;
    bool holds_data = false;  // its data is still on the wire: to be fetched or skipped
    std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();

    // What was asked.
    std::shared_ptr<OpenFile> file;
    uint32_t flags = 0, mode = 0;
    uint64_t offset = 0, length = 0;
    uint32_t data_crc = 0;
    std::string path, capability;
    std::vector<wire::ManyEntry> entries;  // names in `path`
    // By access: the client's memory, and its parts that the data of the answer goes to.
    std::vector<wire::Segment> segments, places;
    unsigned queue = 0;        // that the request came over
    bool invalidates = false;  // its answer may invalidate the first segment's key

    // Memory for file data.
    std::array<io::BufferPool::Buffer*, most_buffers> buffers{};
    unsigned buffer_count = 0;
    size_t wanted = 0;    // bytes of memory
    size_t reserved = 0;  // bytes of both budgets that it holds
    std::array<iovec, most_buffers> memory{};
    std::array<iovec, most_buffers> slices{};  // the part of it that is sent
    uint64_t start = 0;                        // file offset of the memory's first byte
    bool direct = false;
    bool from_cache = false;
    // The part of each buffer, while a cache is asked for it.
    std::array<Part<ReadCache::Request>, most_buffers> cached;
    std::atomic<unsigned> cached_left{0};

    // Results of steps.
    Status status;
    Opened opened;
    std::string sealed;
    std::vector<wire::ManyResult> results;
    size_t filled = 0;

    Part<transport::Send> reply;
    Part<transport::Fetch> data;
    Part<io::Request> transfer;
    Part<io::Budget::Waiter> room;
    Part<transport::Task> back;
    Part<Work> blocking;
    Part<transport::Timer> stall;
    Step block = nullptr;  // on a worker
    Step then = nullptr;   // on the reactor
    Job* next = nullptr;
};

}  // namespace fabric::xds::target
