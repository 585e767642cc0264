// cuFile's properties, parameters and statistics. Parameters tune NVIDIA's library; here they are kept and given back,
// so that a program which sets them finds what it set. Libxds has its own settings (see xds.h).
#include <array>
#include <cstring>
#include <string>

#include "xds/cufile/library.h"

namespace fabric::xds::cufile {
namespace {

constexpr unsigned kib_of_staging = 32 << 10, kib_of_piece = 1024;

struct Settings {
    std::mutex mutex;
    bool poll = false;
    size_t poll_threshold = 4, direct_io = 16384, cache = kib_of_staging, pinned = 33554432;  // KiB
    int statistics_level = 0;
    // By the documented order of CUFileSizeTConfigParameter_t, CUFileBoolConfigParameter_t,
    // CUFileStringConfigParameter_t.
    std::array<size_t, 12> sizes{0, 128, 4, 8192, 8, 16384, kib_of_staging, kib_of_piece, 33554432, 128, 4, 0};
    std::array<bool, 12> switches{false, true};
    std::array<std::string, 3> texts{"ERROR", "", ""};
};
Settings& settings() {
    static auto* instance = new Settings;
    return *instance;
}

// A limit in KiB: not 0, and a multiple of 4, as documented.
int set_limit(size_t Settings::*limit, size_t value) {
    if (value == 0 || value % 4 != 0) return CU_FILE_DRIVER_UNSUPPORTED_LIMIT;
    std::lock_guard lock(settings().mutex);
    settings().*limit = value;
    return CU_FILE_SUCCESS;
}

template <typename Table, typename Value>
int get_parameter(const Table& table, int parameter, Value* value) {
    if (value == nullptr || parameter < 0 || static_cast<size_t>(parameter) >= table.size())
        return CU_FILE_INVALID_VALUE;
    std::lock_guard lock(settings().mutex);
    *value = table[static_cast<size_t>(parameter)];
    return CU_FILE_SUCCESS;
}

// Only before the driver is open, as documented.
template <typename Table, typename Value>
int set_parameter(Table& table, int parameter, const Value& value) {
    if (parameter < 0 || static_cast<size_t>(parameter) >= table.size()) return CU_FILE_INVALID_VALUE;
    if (Library::get().uses() > 0) return CU_FILE_DRIVER_ALREADY_OPEN;
    std::lock_guard lock(settings().mutex);
    table[static_cast<size_t>(parameter)] = value;
    return CU_FILE_SUCCESS;
}

CUfileOpCounter_t counter(const Counted& counted) { return {counted.ok.load(), counted.failed.load()}; }

CUfileStatsLevel1_t statistics() {
    const Statistics& now = Library::get().statistics();
    CUfileStatsLevel1_t stats{};
    stats.read_ops = counter(now.reads);
    stats.write_ops = counter(now.writes);
    stats.hdl_register_ops = counter(now.files);
    stats.hdl_deregister_ops = counter(now.files_ended);
    stats.buf_register_ops = counter(now.buffers);
    stats.buf_deregister_ops = counter(now.buffers_ended);
    stats.batch_setup_ops = counter(now.batches);
    stats.batch_submit_ops = counter(now.submissions);
    stats.batch_cancel_ops = counter(now.cancellations);
    stats.read_bytes = now.read_bytes.load();
    stats.write_bytes = now.written_bytes.load();
    stats.read_lat_sum_us = now.read_us.load();
    stats.write_lat_sum_us = now.written_us.load();
    stats.read_lat_avg_us = stats.read_ops.ok == 0 ? 0 : stats.read_lat_sum_us / stats.read_ops.ok;
    stats.write_lat_avg_us = stats.write_ops.ok == 0 ? 0 : stats.write_lat_sum_us / stats.write_ops.ok;
    return stats;
}

}  // namespace
}  // namespace fabric::xds::cufile

using namespace fabric::xds::cufile;

extern "C" {

CUfileError_t cuFileDriverGetProperties(CUfileDrvProps_t* properties) {
    return guarded([&] {
        if (properties == nullptr) return int{CU_FILE_INVALID_VALUE};
        Library::get().open_driver_if_closed();
        std::lock_guard lock(settings().mutex);
        *properties = {};
        properties->nvfs.poll_thresh_size = settings().poll_threshold;
        properties->nvfs.max_direct_io_size = settings().direct_io;
        properties->nvfs.dstatusflags = 1U << CU_FILE_NFS_SUPPORTED;
        properties->nvfs.dcontrolflags = 1U << CU_FILE_ALLOW_COMPAT_MODE | (settings().poll ? 1U : 0U);
        properties->fflags = 1U << CU_FILE_BATCH_IO_SUPPORTED | 1U << CU_FILE_STREAMS_SUPPORTED;
        properties->max_device_cache_size = static_cast<unsigned>(settings().cache);
        properties->per_buffer_cache_size = kib_of_piece;
        properties->max_device_pinned_mem_size = static_cast<unsigned>(settings().pinned);
        properties->max_batch_io_size = 128;
        return int{CU_FILE_SUCCESS};
    });
}

CUfileError_t cuFileDriverSetPollMode(bool poll, size_t threshold) {
    return guarded([&] {
        if (int code = set_limit(&Settings::poll_threshold, threshold); code != CU_FILE_SUCCESS) return code;
        std::lock_guard lock(settings().mutex);
        settings().poll = poll;
        return int{CU_FILE_SUCCESS};
    });
}
CUfileError_t cuFileDriverSetMaxDirectIOSize(size_t size) {
    return guarded([&] { return set_limit(&Settings::direct_io, size); });
}
CUfileError_t cuFileDriverSetMaxCacheSize(size_t size) {
    return guarded([&] { return set_limit(&Settings::cache, size); });
}
CUfileError_t cuFileDriverSetMaxPinnedMemSize(size_t size) {
    return guarded([&] { return set_limit(&Settings::pinned, size); });
}

CUfileError_t cuFileGetParameterSizeT(int parameter, size_t* value) {
    return guarded([&] { return get_parameter(settings().sizes, parameter, value); });
}
CUfileError_t cuFileSetParameterSizeT(int parameter, size_t value) {
    return guarded([&] { return set_parameter(settings().sizes, parameter, value); });
}
CUfileError_t cuFileGetParameterBool(int parameter, bool* value) {
    return guarded([&] { return get_parameter(settings().switches, parameter, value); });
}
CUfileError_t cuFileSetParameterBool(int parameter, bool value) {
    return guarded([&] { return set_parameter(settings().switches, parameter, value); });
}
CUfileError_t cuFileGetParameterString(int parameter, char* text, int room) {
    return guarded([&] {
        std::string found;
        int code = get_parameter(settings().texts, parameter, &found);
        if (code != CU_FILE_SUCCESS || text == nullptr || room < 0 || found.size() >= static_cast<size_t>(room))
            return int{CU_FILE_INVALID_VALUE};
        std::memcpy(text, found.c_str(), found.size() + 1);
        return int{CU_FILE_SUCCESS};
    });
}
CUfileError_t cuFileSetParameterString(int parameter, const char* text) {
    return guarded([&] {
        if (text == nullptr) return int{CU_FILE_INVALID_VALUE};
        return set_parameter(settings().texts, parameter, text);
    });
}

// ---- statistics: always counted, levels above 1 have nothing to add ----

CUfileError_t cuFileSetStatsLevel(int level) {
    if (level < 0 || level > 3) return error(CU_FILE_INVALID_VALUE);
    std::lock_guard lock(settings().mutex);
    settings().statistics_level = level;
    return error(CU_FILE_SUCCESS);
}
CUfileError_t cuFileGetStatsLevel(int* level) {
    if (level == nullptr) return error(CU_FILE_INVALID_VALUE);
    std::lock_guard lock(settings().mutex);
    *level = settings().statistics_level;
    return error(CU_FILE_SUCCESS);
}
CUfileError_t cuFileStatsStart(void) { return error(CU_FILE_SUCCESS); }
CUfileError_t cuFileStatsStop(void) { return error(CU_FILE_SUCCESS); }
CUfileError_t cuFileStatsReset(void) {
    Statistics& now = Library::get().statistics();
    for (Counted* counted : {&now.reads, &now.writes, &now.files, &now.files_ended, &now.buffers, &now.buffers_ended,
                             &now.batches, &now.submissions, &now.cancellations})
        counted->ok = counted->failed = 0;
    for (std::atomic<uint64_t>* sum : {&now.read_bytes, &now.written_bytes, &now.read_us, &now.written_us}) *sum = 0;
    return error(CU_FILE_SUCCESS);
}
CUfileError_t cuFileGetStatsL1(CUfileStatsLevel1_t* stats) {
    if (stats == nullptr) return error(CU_FILE_INVALID_VALUE);
    *stats = statistics();
    return error(CU_FILE_SUCCESS);
}

}  // extern "C"
