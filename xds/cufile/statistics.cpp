#include "xds/cufile/statistics.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "xds/client/include/xds.h"

namespace fabric::xds::cufile {
namespace {

constexpr uint64_t page = 4096;

// Below 4 KiB, then twice as much each: 4 to 8 KiB, 8 to 16 KiB and so on.
size_t size_class(uint64_t bytes, size_t classes) {
    auto width = static_cast<size_t>(std::bit_width(bytes / page));
    return std::min(width, classes - 1);
}

uint64_t per(uint64_t amount, double seconds) {
    return seconds <= 0 ? 0 : static_cast<uint64_t>(static_cast<double>(amount) / seconds);
}

}  // namespace

void Statistics::set_level(int level) { level_ = level; }

void Statistics::start() {
    std::lock_guard lock(mutex_);
    if (collected_ == 0) since_ = std::chrono::steady_clock::now();
    collected_ = level_.load();
}

void Statistics::stop() {
    std::lock_guard lock(mutex_);
    if (collected_.exchange(0) != 0) collected_for_ += std::chrono::steady_clock::now() - since_;
}

void Statistics::reset() {
    std::lock_guard lock(mutex_);
    since_ = std::chrono::steady_clock::now();
    collected_for_ = {};
    for (Counted& event : events_) event.ok = event.failed = 0;
    for (auto* sums : {&moved_, &batch_moved_})
        for (Moved& sum : *sums) {
            sum.bytes = sum.microseconds = 0;
            for (auto& size : sum.sizes) size = 0;
        }
    for (auto& bytes : last_batch_) bytes = 0;
    for (Device& device : devices_) {
        for (auto* pair :
             {device.bytes, device.microseconds, device.count, device.local, device.unaligned, device.failed})
            pair[0] = pair[1] = 0;
        device.registrations = device.registered = device.not_registered = device.ended = device.registered_bytes = 0;
    }
}

double Statistics::seconds() const {
    std::lock_guard lock(mutex_);
    auto total = collected_for_;
    if (collected_ != 0) total += std::chrono::steady_clock::now() - since_;
    return std::chrono::duration<double>(total).count();
}

void Statistics::count(Event event, bool success) {
    if (!collects(1)) return;
    Counted& counted = events_[static_cast<size_t>(event)];
    (success ? counted.ok : counted.failed).fetch_add(1, std::memory_order_relaxed);
}

Statistics::Device* Statistics::device_of(const void* memory) {
    xds_memory found{};
    found.size = sizeof found;
    if (xds_memory_of(memory, &found) != 0 || found.device < 0 || found.device >= static_cast<int>(most_devices))
        return nullptr;
    return &devices_[static_cast<size_t>(found.device)];
}

void Statistics::moved(bool read, int64_t bytes, uint64_t microseconds, const void* memory, bool local) {
    if (!collects(1)) return;
    count(read ? Event::read : Event::write, bytes >= 0);
    size_t way = read ? 0 : 1;
    auto amount = static_cast<uint64_t>(std::max<int64_t>(bytes, 0));
    if (bytes >= 0) {
        moved_[way].bytes.fetch_add(amount, std::memory_order_relaxed);
        moved_[way].microseconds.fetch_add(microseconds, std::memory_order_relaxed);
        if (collects(2)) moved_[way].sizes[size_class(amount, most_sizes)].fetch_add(1, std::memory_order_relaxed);
    }
    Device* device = collects(3) ? device_of(memory) : nullptr;
    if (device == nullptr) return;
    device->count[way].fetch_add(1, std::memory_order_relaxed);
    if (bytes < 0) device->failed[way].fetch_add(1, std::memory_order_relaxed);
    if (local) device->local[way].fetch_add(1, std::memory_order_relaxed);
    if (amount % page != 0 || reinterpret_cast<uintptr_t>(memory) % page != 0)
        device->unaligned[way].fetch_add(1, std::memory_order_relaxed);
    device->bytes[way].fetch_add(amount, std::memory_order_relaxed);
    device->microseconds[way].fetch_add(microseconds, std::memory_order_relaxed);
}

void Statistics::batch_moved(bool read, int64_t bytes, bool local) {
    if (!collects(1)) return;
    count(Event::batch_processed, bytes >= 0);
    if (local) count(Event::batch_processed_locally, bytes >= 0);
    if (bytes < 0) return;
    size_t way = read ? 0 : 1;
    batch_moved_[way].bytes.fetch_add(static_cast<uint64_t>(bytes), std::memory_order_relaxed);
    last_batch_[way] = static_cast<uint64_t>(bytes);
}

void Statistics::batch_time(bool submission, uint64_t microseconds) {
    if (!collects(1)) return;
    batch_moved_[submission ? 0 : 1].microseconds.fetch_add(microseconds, std::memory_order_relaxed);
}

void Statistics::registered(const void* memory, uint64_t bytes, bool success) {
    count(bytes > 0 ? Event::add_buffer : Event::remove_buffer, success);
    Device* device = collects(3) ? device_of(memory) : nullptr;
    if (device == nullptr) return;
    if (bytes == 0) {
        if (success) ++device->ended;
        return;
    }
    ++device->registrations;
    ++(success ? device->registered : device->not_registered);
    if (success) device->registered_bytes += bytes;
}

CUfileOpCounter_t Statistics::counter(Event event) const {
    const Counted& counted = events_[static_cast<size_t>(event)];
    return {counted.ok.load(), counted.failed.load()};
}

CUfileStatsLevel1_t Statistics::basic() const {
    CUfileStatsLevel1_t stats{};
    double time = seconds();
    auto average = [](uint64_t sum, uint64_t number) { return number == 0 ? 0 : sum / number; };
    stats.read_ops = counter(Event::read);
    stats.write_ops = counter(Event::write);
    stats.hdl_register_ops = counter(Event::add_file);
    stats.hdl_deregister_ops = counter(Event::remove_file);
    stats.buf_register_ops = counter(Event::add_buffer);
    stats.buf_deregister_ops = counter(Event::remove_buffer);
    stats.read_bytes = moved_[0].bytes;
    stats.write_bytes = moved_[1].bytes;
    stats.read_bw_bytes_per_sec = per(stats.read_bytes, time);
    stats.write_bw_bytes_per_sec = per(stats.write_bytes, time);
    stats.read_lat_sum_us = moved_[0].microseconds;
    stats.write_lat_sum_us = moved_[1].microseconds;
    stats.read_lat_avg_us = average(stats.read_lat_sum_us, stats.read_ops.ok);
    stats.write_lat_avg_us = average(stats.write_lat_sum_us, stats.write_ops.ok);
    stats.read_ops_per_sec = per(stats.read_ops.ok, time);
    stats.write_ops_per_sec = per(stats.write_ops.ok, time);
    stats.batch_submit_ops = counter(Event::batch_submit);
    stats.batch_complete_ops = counter(Event::batch_complete);
    stats.batch_setup_ops = counter(Event::batch_set_up);
    stats.batch_cancel_ops = counter(Event::batch_cancel);
    stats.batch_destroy_ops = counter(Event::batch_destroy);
    stats.batch_enqueued_ops = counter(Event::batch_enqueued);
    stats.batch_posix_enqueued_ops = counter(Event::batch_enqueued_locally);
    stats.batch_processed_ops = counter(Event::batch_processed);
    stats.batch_posix_processed_ops = counter(Event::batch_processed_locally);
    stats.batch_total_submit_ops = stats.batch_submit_ops;
    stats.batch_read_bytes = batch_moved_[0].bytes;
    stats.batch_write_bytes = batch_moved_[1].bytes;
    stats.batch_read_bw_bytes = per(stats.batch_read_bytes, time);
    stats.batch_write_bw_bytes = per(stats.batch_write_bytes, time);
    stats.batch_submit_lat_sum_us = batch_moved_[0].microseconds;
    stats.batch_completion_lat_sum_us = batch_moved_[1].microseconds;
    stats.batch_submit_lat_avg_us = average(stats.batch_submit_lat_sum_us, stats.batch_submit_ops.ok);
    stats.batch_completion_lat_avg_us = average(stats.batch_completion_lat_sum_us, stats.batch_complete_ops.ok);
    stats.batch_submit_ops_per_sec = per(stats.batch_submit_ops.ok, time);
    stats.batch_complete_ops_per_sec = per(stats.batch_complete_ops.ok, time);
    stats.last_batch_read_bytes = last_batch_[0];
    stats.last_batch_write_bytes = last_batch_[1];
    return stats;
}

CUfileStatsLevel2_t Statistics::detailed() const {
    CUfileStatsLevel2_t stats{};
    stats.basic = basic();
    for (size_t i = 0; i < most_sizes; ++i) {
        stats.read_size_kb_hist[i] = moved_[0].sizes[i];
        stats.write_size_kb_hist[i] = moved_[1].sizes[i];
    }
    return stats;
}

CUfileStatsLevel3_t Statistics::by_device() const {
    CUfileStatsLevel3_t stats{};
    stats.detailed = detailed();
    double time = seconds();
    auto utilization = [&](uint64_t microseconds) { return per(microseconds / 10'000, time); };  // percent
    for (unsigned i = 0; i < most_devices; ++i) {
        const Device& device = devices_[i];
        CUfilePerGpuStats_t& out = stats.per_gpu_stats[i];
        xds_device found{};
        found.size = sizeof found;
        bool used = device.count[0] + device.count[1] + device.registrations > 0;
        bool real = xds_device_info("cuda", i, &found) == 0;
        if (real) std::memcpy(out.uuid, found.uuid, sizeof out.uuid);
        if (real || used) stats.num_gpus = i + 1;
        out.read_bytes = device.bytes[0];
        out.read_bw_bytes_per_sec = per(out.read_bytes, time);
        out.read_utilization = utilization(device.microseconds[0]);
        out.read_duration_us = device.microseconds[0];
        out.n_total_reads = device.count[0];
        out.n_posix_reads = device.local[0];
        out.n_unaligned_reads = device.unaligned[0];
        out.n_reads_err = device.failed[0];
        out.writes_bytes = device.bytes[1];
        out.write_bw_bytes_per_sec = per(out.writes_bytes, time);
        out.write_utilization = utilization(device.microseconds[1]);
        out.write_duration_us = device.microseconds[1];
        out.n_total_writes = device.count[1];
        out.n_posix_writes = device.local[1];
        out.n_unaligned_writes = device.unaligned[1];
        out.n_writes_err = device.failed[1];
        out.n_mmap = device.registrations;
        out.n_mmap_ok = device.registered;
        out.n_mmap_err = device.not_registered;
        out.n_mmap_free = device.ended;
        out.reg_bytes = device.registered_bytes;
    }
    return stats;
}

}  // namespace fabric::xds::cufile
