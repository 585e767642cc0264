#include "burstbuffer/disks/disk.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "burstbuffer/disks/disks_metrics.h"
#include "common/fault.h"
#include "common/log.h"
#include "common/unique_fd.h"

namespace fabric::disks {

namespace {

using std::chrono::steady_clock;
constexpr auto full_for = std::chrono::seconds(1);
constexpr size_t block = 4096;

struct Free {
    void operator()(char* memory) const { std::free(memory); }
};

}  // namespace

Result<std::unique_ptr<Disk>> Disk::open(const DiskOptions& options, io::Engine& engine, io::BufferPool& pool) {
    std::unique_ptr<Disk> disk(new Disk(options));
    Result<std::unique_ptr<store::LocalStore>> store =
        store::LocalStore::open({.folder = options.folder,
                                 .capacity = options.capacity,
                                 .reserve = options.reserve,
                                 .segment_size = options.segment_size,
                                 .spare_segments = options.spare_segments,
                                 .index = options.index,
                                 .on_failure = [self = disk.get()](const Status& status) { self->failed(status); }},
                                options.engine != nullptr ? *options.engine : engine, pool);
    if (!store.ok()) return store.status();
    disk->store_ = std::move(store).value();
    disk->probe_path_ = options.folder + "/PROBE";
    disk->member_ = {placement::stable_hash(disk->store_->format().uuid), options.weight};
    disk->keeper_ = std::jthread([self = disk.get()](const std::stop_token& stop) { self->keep(stop); });
    return disk;
}

Disk::~Disk() = default;

bool Disk::full() const {
    return steady_clock::now().time_since_epoch().count() < full_until_.load(std::memory_order_relaxed);
}

// What is wrong with the caller or with the bytes is no failure of the disk, but a checksum that does not match is.
void Disk::failed(const Status& status) {
    if (status.errno_value() == ENOSPC) {
        full_until_.store((steady_clock::now() + full_for).time_since_epoch().count(), std::memory_order_relaxed);
        return;
    }
    if (status.code() != Code::io && status.code() != Code::corrupt) return;
    metrics().failures.add(1);
    if (!health_.failed(steady_clock::now())) return;
    bool given_up = state() == Health::State::retired;
    log::warn(
        "disk {}: {}: {}", folder_, status.message(),
        given_up ? "it fails again and again and is given up until the next start" : "it is not used for a while");
    (given_up ? metrics().retired : metrics().rests).add(1);
    std::lock_guard lock(mutex_);
    rests_ = true;
    wake_.notify_one();
}

void Disk::keep(const std::stop_token& stop) {
    std::future<Status> probing;  // by a thread of its own, since it may hang
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
        auto pause = std::chrono::milliseconds(rests_ ? 20 : 250);
        wake_.wait_for(lock, stop, pause,
                       [&] { return rests_ && !probing.valid() && health_.probe_due(steady_clock::now()); });
        if (stop.stop_requested()) return;
        lock.unlock();
        look_whether_it_hangs();
        if (state() == Health::State::resting || probing.valid()) try_again(probing);
        lock.lock();
        rests_ = state() == Health::State::resting;
    }
}

// A probe at a time, when one is due.
void Disk::try_again(std::future<Status>& probing) {
    using namespace std::chrono_literals;
    Status status;
    if (hangs()) {
        if (!health_.probe_due(steady_clock::now())) return;
        status = Status(Code::io, ETIMEDOUT, "a transfer does not come back");
    } else {
        if (!probing.valid()) {
            if (!health_.probe_due(steady_clock::now())) return;
            probing = std::async(std::launch::async, [this] { return probe(); });
        }
        if (probing.wait_for(10ms) != std::future_status::ready) return;
        status = probing.get();
    }
    health_.probed(status.ok(), steady_clock::now());
    if (status.ok()) {
        log::info("disk {} is used again", folder_);
        metrics().returns.add(1);
    } else if (state() == Health::State::retired) {
        log::error("disk {}: {}: it is given up until the next start", folder_, status.message());
        metrics().retired.add(1);
    }
}

// Whoever waits for it goes on without; others go elsewhere. What the kernel has of their memory it keeps until the
// disk answers.
void Disk::look_whether_it_hangs() {
    bool stuck = hangs();
    store_->set_hung(stuck);
    if (!stuck) return;
    if (health_.hangs(steady_clock::now())) {
        log::warn("disk {}: a transfer has not come back for {} s: it is not used for a while", folder_, hung_after_);
        metrics().rests.add(1);
    }
    store_->leave(hung_after_);
}

// A block is written, made durable and read back.
Status Disk::probe() const {
    std::string name = std::filesystem::path(folder_).filename();
    for (const std::string& point : {std::string("disk.probe"), "disk.probe." + name}) {
        if (int error = fault::hit(point)) return Status::from_errno(error, "probing " + folder_);
    }
    UniqueFd file(::open(probe_path_.c_str(), O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600));
    if (!file) return Status::from_errno(errno, "open " + probe_path_);
    std::unique_ptr<char, Free> out(static_cast<char*>(std::aligned_alloc(block, block)));
    std::unique_ptr<char, Free> in(static_cast<char*>(std::aligned_alloc(block, block)));
    if (out == nullptr || in == nullptr) return Status::from_errno(ENOMEM, "probing " + folder_);
    auto now = steady_clock::now().time_since_epoch().count();
    for (size_t i = 0; i < block; ++i) out.get()[i] = static_cast<char>(now + static_cast<int64_t>(i));
    if (pwrite(file.get(), out.get(), block, 0) != static_cast<ssize_t>(block) || fdatasync(file.get()) != 0)
        return Status::from_errno(errno, "write " + probe_path_);
    if (pread(file.get(), in.get(), block, 0) != static_cast<ssize_t>(block))
        return Status::from_errno(errno, "read " + probe_path_);
    if (memcmp(in.get(), out.get(), block) != 0) return {Code::corrupt, EIO, probe_path_ + " has other bytes"};
    return {};
}

}  // namespace fabric::disks
