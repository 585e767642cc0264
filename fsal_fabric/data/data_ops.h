// The data path and the state operations of the FSAL, as the rest of it sees them.
#pragma once

#include <cstdint>
#include <string>

#include "common/fs/filesystem.h"
#include "common/result.h"
#include "fsal_fabric/ganesha.h"

namespace fabric::fsal {

struct Object;

// Options of the FABRIC block. Comment: name in the file, unit, minimum, maximum.
struct DataConfig {
    // IO_Lanes: io_uring rings with a thread each, 0 to 64; 0: one per CPU, at most 16.
    uint32_t lanes = 0;
    // IO_Depth: operations in the kernel at once per lane, 8 to 4096.
    uint32_t depth = 128;
    // IO_Bytes_In_Flight: bytes, 1 MiB to 64 GiB: transfers in the kernel at once, all exports together; more waits.
    uint64_t bytes_in_flight = uint64_t{256} << 20;
    // IO_Export_Bytes_In_Flight: bytes, 1 MiB to 64 GiB: the same per export.
    uint64_t export_bytes_in_flight = uint64_t{192} << 20;
    // Read_Buffer_Memory: bytes, 16 MiB to 1 TiB: READ replies over TCP and bounce buffers, held until sent.
    uint64_t buffer_memory = uint64_t{1} << 30;
    // Buffer_Idle_Time: seconds, 1 to 3600, after which unused buffer memory goes back to the kernel.
    uint32_t buffer_idle_seconds = 5;
    // Direct_Read_Min: bytes, 0 to 1 GiB: a READ into registered memory of at least this size that the page cache does
    // not hold goes by O_DIRECT; 0: never.
    uint64_t direct_read_min = 64 << 10;
    // Direct_Write_Min: bytes, 0 to 1 GiB: an aligned WRITE from registered memory of at least this size goes by
    // O_DIRECT; 0: never.
    uint64_t direct_write_min = 256 << 10;
};

// Starts the lanes and the buffer pool; called by the module's start on the main thread, before any request.
Status start_data(const DataConfig& config);
// After start_data(), when the configuration has a BurstBuffer block: this process becomes the owner of the node's
// disks.
Status start_burst_buffer(const std::string& settings_path, fs::FilesystemTable& filesystems);
// Called when the module is unloaded: waits for what is in flight.
void stop_data();

// open2, check_verifier, reopen2, status2, close, close2, close_func, reopen_func, read2, write2, commit2, lock_op2,
// seek2, fallocate, io_advise2.
void install_data_ops(fsal_obj_ops& ops);
// alloc_state, get_write_verifier, get_fsal_obj_hdl.
void install_data_export_ops(export_ops& ops);

// Closes the object's own descriptor and settles what is not committed; for release(). No I/O may be in progress.
void close_object_file(Object& object);
// After EMFILE or ENFILE: has descriptors closed that the server keeps open but does not use. True: try again. Waits a
// second at most; no lock of Ganesha's LRU may be held.
bool relieve_descriptors();
// The share reservations' part of merge().
fsal_status_t merge_shares(Object& original, Object& duplicate);

}  // namespace fabric::fsal
