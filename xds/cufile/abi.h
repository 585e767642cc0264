/* The binary interface of NVIDIA's cuFile library, as its reference documents it (docs.nvidia.com, GPUDirect Storage,
 * "cuFile API Reference Guide"): what a program was compiled with that calls us. Only what crosses the boundary is
 * here; names and numbers are NVIDIA's, since the program's own header has them. */
#ifndef XDS_CUFILE_ABI_H
#define XDS_CUFILE_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct CUstream_st* CUstream; /* CUDA's */

enum {
    CU_FILE_SUCCESS = 0,
    CU_FILE_DRIVER_NOT_INITIALIZED = 5001,
    CU_FILE_DRIVER_UNSUPPORTED_LIMIT = 5003,
    CU_FILE_IO_NOT_SUPPORTED = 5008,
    CU_FILE_DEVICE_NOT_SUPPORTED = 5009,
    CU_FILE_CUDA_POINTER_RANGE_ERROR = 5014,
    CU_FILE_INVALID_FILE_TYPE = 5018,
    CU_FILE_INVALID_FILE_OPEN_FLAG = 5019,
    CU_FILE_INVALID_VALUE = 5022,
    CU_FILE_MEMORY_ALREADY_REGISTERED = 5023,
    CU_FILE_MEMORY_NOT_REGISTERED = 5024,
    CU_FILE_PERMISSION_DENIED = 5025,
    CU_FILE_DRIVER_ALREADY_OPEN = 5026,
    CU_FILE_HANDLE_NOT_REGISTERED = 5027,
    CU_FILE_HANDLE_ALREADY_REGISTERED = 5028,
    CU_FILE_INTERNAL_ERROR = 5030,
    CU_FILE_BATCH_FULL = 5037,
    CU_FILE_NOMEM_ERROR = 5043,
    CU_FILE_IO_ERROR = 5044
};

typedef struct CUfileError {
    int err;    /* one of the above */
    int cu_err; /* CUDA's CUresult; 0 */
} CUfileError_t;

typedef void* CUfileHandle_t;
typedef void* CUfileBatchHandle_t;

enum { CU_FILE_HANDLE_TYPE_OPAQUE_FD = 1, CU_FILE_HANDLE_TYPE_OPAQUE_WIN32 = 2, CU_FILE_HANDLE_TYPE_USERSPACE_FS = 3 };
typedef struct CUfileDescr_t {
    int type;
    union {
        int fd;
        void* handle;
    } handle;
    const void* fs_ops;
} CUfileDescr_t;

enum { CU_FILE_NFS_SUPPORTED = 2 };                                     /* bit of dstatusflags */
enum { CU_FILE_ALLOW_COMPAT_MODE = 1 };                                 /* bit of dcontrolflags */
enum { CU_FILE_BATCH_IO_SUPPORTED = 1, CU_FILE_STREAMS_SUPPORTED = 2 }; /* bits of fflags */
typedef struct CUfileDrvProps {
    struct {
        unsigned major_version, minor_version;
        size_t poll_thresh_size;   /* KiB */
        size_t max_direct_io_size; /* KiB */
        unsigned dstatusflags, dcontrolflags;
    } nvfs;
    unsigned fflags;
    unsigned max_device_cache_size, per_buffer_cache_size, max_device_pinned_mem_size; /* KiB */
    unsigned max_batch_io_size, max_batch_io_timeout_msecs;
} CUfileDrvProps_t;

enum { CUFILE_READ = 0, CUFILE_WRITE = 1 };
enum { CUFILE_BATCH = 1 };
enum {
    CUFILE_WAITING = 1,
    CUFILE_PENDING = 2,
    CUFILE_INVALID = 4,
    CUFILE_CANCELED = 8,
    CUFILE_COMPLETE = 16,
    CUFILE_TIMEOUT = 32,
    CUFILE_FAILED = 64
};
typedef struct CUfileIOParams {
    int mode;
    union {
        struct {
            void* devPtr_base;
            off_t file_offset;
            off_t devPtr_offset;
            size_t size;
        } batch;
    } u;
    CUfileHandle_t fh;
    int opcode;
    void* cookie;
} CUfileIOParams_t;
typedef struct CUfileIOEvents {
    void* cookie;
    int status;
    size_t ret; /* bytes, or a negative error */
} CUfileIOEvents_t;

typedef struct CUfileOpCounter {
    uint64_t ok, err;
} CUfileOpCounter_t;
typedef struct CUfileStatsLevel1 {
    CUfileOpCounter_t read_ops, write_ops, hdl_register_ops, hdl_deregister_ops, buf_register_ops, buf_deregister_ops;
    uint64_t read_bytes, write_bytes, read_bw_bytes_per_sec, write_bw_bytes_per_sec, read_lat_avg_us, write_lat_avg_us,
        read_ops_per_sec, write_ops_per_sec, read_lat_sum_us, write_lat_sum_us;
    CUfileOpCounter_t batch_submit_ops, batch_complete_ops, batch_setup_ops, batch_cancel_ops, batch_destroy_ops,
        batch_enqueued_ops, batch_posix_enqueued_ops, batch_processed_ops, batch_posix_processed_ops,
        batch_nvfs_submit_ops, batch_p2p_submit_ops, batch_aio_submit_ops, batch_iouring_submit_ops,
        batch_mixed_io_submit_ops, batch_total_submit_ops;
    uint64_t batch_read_bytes, batch_write_bytes, batch_read_bw_bytes, batch_write_bw_bytes, batch_submit_lat_avg_us,
        batch_completion_lat_avg_us, batch_submit_ops_per_sec, batch_complete_ops_per_sec, batch_submit_lat_sum_us,
        batch_completion_lat_sum_us, last_batch_read_bytes, last_batch_write_bytes;
} CUfileStatsLevel1_t;

typedef struct CUfileStatsLevel2 {
    CUfileStatsLevel1_t basic;
    uint64_t read_size_kb_hist[32], write_size_kb_hist[32];
} CUfileStatsLevel2_t;
typedef struct CUfilePerGpuStats {
    char uuid[16];
    uint64_t read_bytes, read_bw_bytes_per_sec, read_utilization, read_duration_us, n_total_reads, n_p2p_reads,
        n_nvfs_reads, n_posix_reads, n_unaligned_reads, n_dr_reads, n_sparse_regions, n_inline_regions, n_reads_err,
        writes_bytes, write_bw_bytes_per_sec, write_utilization, write_duration_us, n_total_writes, n_p2p_writes,
        n_nvfs_writes, n_posix_writes, n_unaligned_writes, n_dr_writes, n_writes_err, n_mmap, n_mmap_ok, n_mmap_err,
        n_mmap_free, reg_bytes;
} CUfilePerGpuStats_t;
typedef struct CUfileStatsLevel3 {
    CUfileStatsLevel2_t detailed;
    uint32_t num_gpus;
    CUfilePerGpuStats_t per_gpu_stats[16];
} CUfileStatsLevel3_t;

CUfileError_t cuFileDriverOpen(void);
CUfileError_t cuFileDriverClose(void);
CUfileError_t cuFileDriverClose_v2(void);
long cuFileUseCount(void);
CUfileError_t cuFileDriverGetProperties(CUfileDrvProps_t* properties);
CUfileError_t cuFileDriverSetPollMode(bool poll, size_t threshold);
CUfileError_t cuFileDriverSetMaxDirectIOSize(size_t size);
CUfileError_t cuFileDriverSetMaxCacheSize(size_t size);
CUfileError_t cuFileDriverSetMaxPinnedMemSize(size_t size);
CUfileError_t cuFileHandleRegister(CUfileHandle_t* handle, CUfileDescr_t* description);
void cuFileHandleDeregister(CUfileHandle_t handle);
CUfileError_t cuFileBufRegister(const void* memory, size_t length, int flags);
CUfileError_t cuFileBufDeregister(const void* memory);
ssize_t cuFileRead(CUfileHandle_t handle, void* memory, size_t size, off_t offset, off_t memory_offset);
ssize_t cuFileWrite(CUfileHandle_t handle, const void* memory, size_t size, off_t offset, off_t memory_offset);
typedef struct CUfileIOVec {
    void* base;
    size_t len; /* bytes */
} CUfileIOVec_t;
ssize_t cuFileReadv(CUfileHandle_t handle, const CUfileIOVec_t* parts, size_t count, off_t offset, unsigned flags);
ssize_t cuFileWritev(CUfileHandle_t handle, const CUfileIOVec_t* parts, size_t count, off_t offset, unsigned flags);
CUfileError_t cuFileReadAsync(CUfileHandle_t handle, void* memory, size_t* size, off_t* offset, off_t* memory_offset,
                              ssize_t* got, CUstream stream);
CUfileError_t cuFileWriteAsync(CUfileHandle_t handle, void* memory, size_t* size, off_t* offset, off_t* memory_offset,
                               ssize_t* written, CUstream stream);
CUfileError_t cuFileStreamRegister(CUstream stream, unsigned flags);
CUfileError_t cuFileStreamDeregister(CUstream stream);
CUfileError_t cuFileBatchIOSetUp(CUfileBatchHandle_t* batch, unsigned capacity);
CUfileError_t cuFileBatchIOSubmit(CUfileBatchHandle_t batch, unsigned count, CUfileIOParams_t* requests,
                                  unsigned flags);
CUfileError_t cuFileBatchIOGetStatus(CUfileBatchHandle_t batch, unsigned least, unsigned* count,
                                     CUfileIOEvents_t* events, struct timespec* timeout);
CUfileError_t cuFileBatchIOCancel(CUfileBatchHandle_t batch);
void cuFileBatchIODestroy(CUfileBatchHandle_t batch);
CUfileError_t cuFileGetVersion(int* version);
/* Numbers in the documented order. */
typedef int CUFileSizeTConfigParameter_t, CUFileBoolConfigParameter_t, CUFileStringConfigParameter_t;
CUfileError_t cuFileGetParameterSizeT(CUFileSizeTConfigParameter_t parameter, size_t* value);
CUfileError_t cuFileSetParameterSizeT(CUFileSizeTConfigParameter_t parameter, size_t value);
CUfileError_t cuFileGetParameterBool(CUFileBoolConfigParameter_t parameter, bool* value);
CUfileError_t cuFileSetParameterBool(CUFileBoolConfigParameter_t parameter, bool value);
CUfileError_t cuFileGetParameterString(CUFileStringConfigParameter_t parameter, char* text, int room);
CUfileError_t cuFileSetParameterString(CUFileStringConfigParameter_t parameter, const char* text);
CUfileError_t cuFileGetParameterMinMaxValue(CUFileSizeTConfigParameter_t parameter, size_t* least, size_t* most);
CUfileError_t cuFileSetParameterPosixPoolSlabArray(const size_t* sizes, const size_t* counts, int length);
CUfileError_t cuFileGetParameterPosixPoolSlabArray(size_t* sizes, size_t* counts, int length);
CUfileError_t cuFileSetParameterGpuBounceBufferSlabArray(const size_t* sizes, const size_t* counts, int length);
CUfileError_t cuFileGetParameterGpuBounceBufferSlabArray(size_t* sizes, size_t* counts, int length);
/* One of the numbers of dstatusflags, below CU_FILE_MAX_TARGET_TYPES, and bits of how its data may go. */
enum { CU_FILE_MAX_TARGET_TYPES = 14 };
enum { CU_FILE_P2P_FLAG_PCI_P2PDMA = 1, CU_FILE_P2P_FLAG_C2C = 8 };
typedef int CUfileDriverStatusFlags_t, CUfileP2PFlags_t;
CUfileError_t cuFileDriverSetP2PFlags(CUfileDriverStatusFlags_t file_system, CUfileP2PFlags_t flags);
CUfileError_t cuFileDriverGetP2PFlags(CUfileDriverStatusFlags_t file_system, CUfileP2PFlags_t* flags);
CUfileError_t cuFileExportPCIeTopology(const char* path);
CUfileError_t cuFileSetStatsLevel(int level);
CUfileError_t cuFileGetStatsLevel(int* level);
CUfileError_t cuFileStatsStart(void);
CUfileError_t cuFileStatsStop(void);
CUfileError_t cuFileStatsReset(void);
CUfileError_t cuFileGetStatsL1(CUfileStatsLevel1_t* stats);
CUfileError_t cuFileGetStatsL2(CUfileStatsLevel2_t* stats);
CUfileError_t cuFileGetStatsL3(CUfileStatsLevel3_t* stats);
CUfileError_t cuFileGetBARSizeInKB(int index, size_t* size);

#ifdef __cplusplus
}
#endif
#endif
