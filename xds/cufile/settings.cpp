// cuFile's properties and parameters. Parameters tune NVIDIA's library; here they are kept and given back,
// so that a program which sets them finds what it set. Libxds has its own settings (see xds.h).
#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "xds/cufile/library.h"

namespace fabric::xds::cufile {
namespace {

constexpr unsigned kib_of_staging = 32 << 10, kib_of_piece = 1024;

struct Slabs {
    std::vector<size_t> sizes, counts;  // KiB
};

struct Settings {
    std::mutex mutex;
    bool poll = false;
    size_t poll_threshold = 4, direct_io = 16384, cache = kib_of_staging, pinned = 33554432;  // KiB
    // By the documented order of CUFileSizeTConfigParameter_t, CUFileBoolConfigParameter_t,
    // CUFileStringConfigParameter_t.
    std::array<size_t, 12> sizes{0, 128, 4, 8192, 8, 16384, kib_of_staging, kib_of_piece, 33554432, 128, 4, 0};
    std::array<bool, 12> switches{false, true};
    std::array<std::string, 3> texts{"ERROR", "", ""};
    // Pools of NVIDIA's POSIX path, and of its bounce buffers in GPUs.
    Slabs posix_slabs{{4, 1024, 16384}, {128, 64, 64}}, gpu_slabs{{1024}, {32}};
    std::array<int, CU_FILE_MAX_TARGET_TYPES> p2p{};
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

int set_slabs(Slabs& slabs, const size_t* sizes, const size_t* counts, int length) {
    if (sizes == nullptr || counts == nullptr || length <= 0) return CU_FILE_INVALID_VALUE;
    if (Library::get().uses() > 0) return CU_FILE_DRIVER_ALREADY_OPEN;
    std::lock_guard lock(settings().mutex);
    slabs.sizes.assign(sizes, sizes + length);
    slabs.counts.assign(counts, counts + length);
    return CU_FILE_SUCCESS;
}

int get_slabs(const Slabs& slabs, size_t* sizes, size_t* counts, int length) {
    std::lock_guard lock(settings().mutex);
    if (sizes == nullptr || counts == nullptr || length != static_cast<int>(slabs.sizes.size()))
        return CU_FILE_INVALID_VALUE;
    std::copy(slabs.sizes.begin(), slabs.sizes.end(), sizes);
    std::copy(slabs.counts.begin(), slabs.counts.end(), counts);
    return CU_FILE_SUCCESS;
}

bool is_file_system(int number) { return number >= 0 && number < CU_FILE_MAX_TARGET_TYPES; }

// The bus address of what a link in sysfs leads to, or nothing: not on a bus.
std::string bus_address(const std::filesystem::path& device) {
    std::error_code none;
    return std::filesystem::canonical(device / "device", none).filename().string();
}

std::string topology() {
    std::ostringstream out;
    out << "{\n  \"gpus\": [";
    xds_device gpu{};
    gpu.size = sizeof gpu;
    for (unsigned i = 0; xds_device_info("cuda", i, &gpu) == 0; ++i)
        out << (i == 0 ? "" : ", ") << "{\"index\": " << i << ", \"bar_kib\": " << gpu.aperture_bytes / 1024 << "}";
    out << "],\n  \"rdma\": [";
    std::error_code none;
    const char* separator = "";
    for (const auto& card : std::filesystem::directory_iterator("/sys/class/infiniband", none)) {
        out << separator << "{\"name\": \"" << card.path().filename().string() << "\", \"bus\": \""
            << bus_address(card.path()) << "\"}";
        separator = ", ";
    }
    out << "]\n}\n";
    return out.str();
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

// Any value is kept.
CUfileError_t cuFileGetParameterMinMaxValue(int parameter, size_t* least, size_t* most) {
    return guarded([&] {
        size_t now = 0;
        int code = get_parameter(settings().sizes, parameter, &now);
        if (code != CU_FILE_SUCCESS || least == nullptr || most == nullptr) return int{CU_FILE_INVALID_VALUE};
        *least = 0;
        *most = SIZE_MAX;
        return int{CU_FILE_SUCCESS};
    });
}

CUfileError_t cuFileSetParameterPosixPoolSlabArray(const size_t* sizes, const size_t* counts, int length) {
    return guarded([&] { return set_slabs(settings().posix_slabs, sizes, counts, length); });
}
CUfileError_t cuFileGetParameterPosixPoolSlabArray(size_t* sizes, size_t* counts, int length) {
    return guarded([&] { return get_slabs(settings().posix_slabs, sizes, counts, length); });
}
CUfileError_t cuFileSetParameterGpuBounceBufferSlabArray(const size_t* sizes, const size_t* counts, int length) {
    return guarded([&] { return set_slabs(settings().gpu_slabs, sizes, counts, length); });
}
CUfileError_t cuFileGetParameterGpuBounceBufferSlabArray(size_t* sizes, size_t* counts, int length) {
    return guarded([&] { return get_slabs(settings().gpu_slabs, sizes, counts, length); });
}

// Kept: which way data of a gateway's files goes is XDS's own to choose (XDS_MODE).
CUfileError_t cuFileDriverSetP2PFlags(CUfileDriverStatusFlags_t file_system, CUfileP2PFlags_t flags) {
    return guarded([&] {
        if (!is_file_system(file_system)) return int{CU_FILE_INVALID_VALUE};
        if (flags != 0 && flags != CU_FILE_P2P_FLAG_PCI_P2PDMA && flags != CU_FILE_P2P_FLAG_C2C)
            return int{CU_FILE_INVALID_VALUE};
        std::lock_guard lock(settings().mutex);
        settings().p2p[static_cast<size_t>(file_system)] = flags;
        return int{CU_FILE_SUCCESS};
    });
}
CUfileError_t cuFileDriverGetP2PFlags(CUfileDriverStatusFlags_t file_system, CUfileP2PFlags_t* flags) {
    return guarded([&] {
        if (!is_file_system(file_system) || flags == nullptr) return int{CU_FILE_INVALID_VALUE};
        std::lock_guard lock(settings().mutex);
        *flags = settings().p2p[static_cast<size_t>(file_system)];
        return int{CU_FILE_SUCCESS};
    });
}

// The GPUs that this process has, and the network devices, by their places on the bus.
CUfileError_t cuFileExportPCIeTopology(const char* path) {
    return guarded([&] {
        if (path == nullptr || *path == 0) return int{CU_FILE_INVALID_VALUE};
        std::ofstream out(path);
        out << topology();
        out.close();
        return out ? int{CU_FILE_SUCCESS} : int{CU_FILE_INVALID_VALUE};
    });
}

}  // extern "C"
