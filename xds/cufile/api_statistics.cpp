// cuFile's calls about statistics and devices.
#include "xds/cufile/library.h"

using namespace fabric::xds::cufile;

namespace {

bool driver_open() { return Library::get().uses() > 0; }

// `level`: what the program must have set for it.
template <typename Stats, typename Read>
CUfileError_t give(Stats* stats, int level, Read&& read) {
    return guarded([&] {
        if (stats == nullptr || Library::get().statistics().level() < level) return int{CU_FILE_INVALID_VALUE};
        if (!driver_open()) return int{CU_FILE_DRIVER_NOT_INITIALIZED};
        *stats = read(Library::get().statistics());
        return int{CU_FILE_SUCCESS};
    });
}

template <typename Change>
CUfileError_t change(Change&& what) {
    return guarded([&] {
        if (!driver_open()) return int{CU_FILE_DRIVER_NOT_INITIALIZED};
        what(Library::get().statistics());
        return int{CU_FILE_SUCCESS};
    });
}

}  // namespace

extern "C" {

CUfileError_t cuFileSetStatsLevel(int level) {
    if (level < 0 || level > 3) return error(CU_FILE_INVALID_VALUE);
    Library::get().statistics().set_level(level);
    return error(CU_FILE_SUCCESS);
}
CUfileError_t cuFileGetStatsLevel(int* level) {
    if (level == nullptr) return error(CU_FILE_INVALID_VALUE);
    *level = Library::get().statistics().level();
    return error(CU_FILE_SUCCESS);
}
CUfileError_t cuFileStatsStart(void) {
    return change([](Statistics& statistics) { statistics.start(); });
}
CUfileError_t cuFileStatsStop(void) {
    return change([](Statistics& statistics) { statistics.stop(); });
}
CUfileError_t cuFileStatsReset(void) {
    return change([](Statistics& statistics) { statistics.reset(); });
}
CUfileError_t cuFileGetStatsL1(CUfileStatsLevel1_t* stats) {
    return give(stats, 1, [](const Statistics& statistics) { return statistics.basic(); });
}
CUfileError_t cuFileGetStatsL2(CUfileStatsLevel2_t* stats) {
    return give(stats, 2, [](const Statistics& statistics) { return statistics.detailed(); });
}
CUfileError_t cuFileGetStatsL3(CUfileStatsLevel3_t* stats) {
    return give(stats, 3, [](const Statistics& statistics) { return statistics.by_device(); });
}

CUfileError_t cuFileGetBARSizeInKB(int index, size_t* size) {
    return guarded([&] {
        if (size == nullptr || index < 0) return int{CU_FILE_INVALID_VALUE};
        if (!driver_open()) return int{CU_FILE_DRIVER_NOT_INITIALIZED};
        xds_device found{};
        found.size = sizeof found;
        if (xds_device_info("cuda", static_cast<unsigned>(index), &found) != 0 || found.aperture_bytes == 0)
            return int{CU_FILE_INVALID_VALUE};
        *size = found.aperture_bytes >> 10;
        return int{CU_FILE_SUCCESS};
    });
}

}  // extern "C"
