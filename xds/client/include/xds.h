/* libxds: file extents from a storage node into memory of this process or of its accelerators.
 *
 * Calls return 0 or a count, or a negative errno value; xds_error() then says why in words. Handles are opaque; a
 * handle that was closed is answered by -EBADF, never by a crash. Every call may be made from any thread, for any
 * handle.
 *
 * After fork() the child cannot use what the parent opened (-ENOTCONN); it opens a context of its own, which goes by
 * TCP if the parent used RDMA. The parent is not affected. Nothing has to be closed before exit().
 *
 * Structures start with their size: set it to sizeof(the structure). Later versions only add fields at the end.
 */
#ifndef XDS_H
#define XDS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define XDS_API __attribute__((visibility("default")))

typedef struct xds_ctx xds_ctx;       /* connections to one target */
typedef struct xds_file xds_file;     /* an open file */
typedef struct xds_buf xds_buf;       /* a registered buffer */
typedef struct xds_queue xds_queue;   /* asynchronous requests */
typedef struct xds_stream xds_stream; /* an order in which requests and calls are done */

/* Which way data may go. XDS_MODE=auto|direct_only|staged|tcp in the environment goes before the option. */
enum xds_mode {
    XDS_MODE_AUTO = 0,
    XDS_MODE_DIRECT_ONLY = 1, /* fails rather than copy in this process: -ENOTSUP names the cause */
    XDS_MODE_STAGED = 2,      /* always through a buffer of the library */
    XDS_MODE_TCP = 3          /* TCP even where RDMA would work */
};

/* Which way data went. */
enum xds_path {
    XDS_PATH_NONE = 0,   /* no data moved */
    XDS_PATH_DIRECT = 1, /* the storage node wrote into, or read from, the buffer itself (RDMA) */
    XDS_PATH_STAGED = 2, /* through host memory of the library, then copied by the memory's own kind */
    XDS_PATH_TCP = 3,    /* between a socket and the buffer, without a copy in this process */
    XDS_PATH_LOCAL = 4   /* read or written by this process itself */
};

typedef struct xds_options {
    uint32_t size;
    uint32_t mode;          /* enum xds_mode */
    const char* address;    /* HOST:PORT; null: XDS_ADDRESS from the environment */
    const char* agent;      /* path of the node's agent socket; null: XDS_AGENT; neither: no ticket */
    uint32_t streams;       /* TCP connections for large requests; 0: XDS_STREAMS, else 4 */
    uint32_t timeout_ms;    /* a request ends after this, one way or the other; 0: 30000 */
    uint32_t piece;         /* bytes of a large request that go at once over one stream; 0: 1 MiB */
    uint32_t staging_bytes; /* host memory for staged data; 0: 32 MiB */
    uint32_t verify;        /* not 0: check CRC32C of what was read, where it lies. XDS_VERIFY=1 too */
    uint32_t reserved;
} xds_options;

/* Connects. `options` may be null. */
XDS_API int xds_ctx_open(const xds_options* options, xds_ctx** ctx);
/* Ends all requests (-ECANCELED), then closes everything that was opened in it. */
XDS_API int xds_ctx_close(xds_ctx* ctx);
/* What went wrong in the last call of this thread that failed; "" if none did. Valid until the thread's next call. */
XDS_API const char* xds_error(void);
XDS_API const char* xds_version(void);

/* `path` is relative to the target's export root. `flags` as for open(2): O_RDONLY, O_WRONLY, O_RDWR, O_CREAT, O_EXCL,
 * O_TRUNC; others are -EINVAL. */
XDS_API int xds_open(xds_ctx* ctx, const char* path, int flags, mode_t mode, xds_file** file);
/* The file behind an open descriptor. One on an NFS mount of the gateway is found through the target, where its path
 * below the mount is looked up and its inode number must agree (-ESTALE otherwise); any other is used by this process
 * itself (path `local`). The environment's XDS_MOUNT names a folder that shows the target's root though it is no NFS
 * mount. A null context: used by this process itself, wherever it is. The descriptor may be closed afterwards. */
XDS_API int xds_open_fd(xds_ctx* ctx, int fd, xds_file** file);
/* 1: this process reads and writes the file itself; 0: the target does. */
XDS_API int xds_is_local(xds_file* file);
XDS_API int xds_close(xds_file* file);

typedef struct xds_attributes {
    uint32_t size;
    uint32_t mode; /* st_mode */
    uint64_t bytes, inode;
    int64_t mtime_ns, ctime_ns;
    uint32_t uid, gid, links, reserved;
} xds_attributes;
/* The attributes as the target has them now. */
XDS_API int xds_stat(xds_file* file, xds_attributes* attributes);

/* Says beforehand what memory requests will use; requests on other memory look it up each time. -EFAULT: not memory of
 * a known kind, or not within one allocation. */
XDS_API int xds_buf_register(xds_ctx* ctx, void* address, size_t length, xds_buf** buf);
/* Memory that another driver exported as a dma-buf: `length` bytes of it from `offset` on. Requests name it by
 * addresses that stand for it, from xds_buf_address() on, which nothing else can use. A card that registers dma-bufs
 * reaches it directly; otherwise it has to be one that can be mapped, or requests are -ENOTSUP. The descriptor may be
 * closed afterwards. -EFAULT: it is not so long. */
XDS_API int xds_buf_register_dmabuf(xds_ctx* ctx, int fd, uint64_t offset, size_t length, xds_buf** buf);
/* The first address of a registered buffer; null: it is none. */
XDS_API void* xds_buf_address(xds_buf* buf);
XDS_API int xds_buf_deregister(xds_buf* buf);

/* Any offset, length and address. Fewer bytes than asked only at the end of the file. The memory may be of any kind. */
XDS_API ssize_t xds_pread(xds_file* file, void* buffer, size_t length, off_t offset);
XDS_API ssize_t xds_pwrite(xds_file* file, const void* buffer, size_t length, off_t offset);
/* Makes completed writes durable. -EIO once, when the target was restarted since: they may be lost. */
XDS_API int xds_fsync(xds_file* file);

enum xds_op { XDS_READ = 0, XDS_WRITE = 1, XDS_FSYNC = 2 };

typedef struct xds_io {
    uint32_t size;
    uint32_t op; /* enum xds_op */
    xds_file* file;
    void* buffer;
    uint64_t length;
    uint64_t offset;
    uint64_t cookie; /* comes back in the completion */
} xds_io;

typedef struct xds_completion {
    uint32_t size;
    uint32_t path; /* enum xds_path */
    uint64_t cookie;
    int64_t result; /* bytes, or a negative errno value */
    uint64_t direct_bytes, staged_bytes, tcp_bytes, local_bytes;
    char reason[128]; /* why that path, or what went wrong */
} xds_completion;

/* At most `depth` requests that are submitted and not yet fetched by xds_queue_wait. */
XDS_API int xds_queue_create(xds_ctx* ctx, unsigned depth, xds_queue** queue);
/* Cancels what is in progress and waits for it. */
XDS_API int xds_queue_destroy(xds_queue* queue);
/* How many were taken, from the first on; -EAGAIN: none, the queue is full. A request that is wrong in itself is taken,
 * and its completion says so. Buffers belong to the library until the completion was fetched. Requests on `local` files
 * are done before the call returns. */
XDS_API int xds_queue_submit(xds_queue* queue, const xds_io* ios, unsigned count);
/* Fetches up to `most` completions as soon as `least` are there; 0 when none is in progress. timeout_ms < 0: no limit.
 * Each element's size is to be set. */
XDS_API int xds_queue_wait(xds_queue* queue, xds_completion* completions, unsigned most, unsigned least,
                           int timeout_ms);
/* Asks to end all requests with that cookie: each still completes, by -ECANCELED or its result. -ENOENT: there is none.
 */
XDS_API int xds_queue_cancel(xds_queue* queue, uint64_t cookie);

/* An order of work beside the caller: whatever a stream is given begins when all that it was given before is over.
 * `kind`: "host" or "sim", a thread of the library's own, with a null `native`; or "cuda", where `native` is a CUstream
 * of the program's (null: the default stream of the context that is current at each call), so that requests and the
 * GPU's work on that stream wait for each other. -ENOTSUP: no such accelerator here. After fork() as all handles. */
XDS_API int xds_stream_open(const char* kind, void* native, xds_stream** stream);
/* Waits until all that was given before is over, then takes no more (-ECANCELED). A CUstream stays the program's; it is
 * to be destroyed afterwards. -EDEADLK: called by the stream's own work. */
XDS_API int xds_stream_close(xds_stream* stream);
/* xds_pread and xds_pwrite of [buffer + *buffer_offset, + *length) in the stream's order. All that the pointers name
 * stays the caller's and must stay in place until the request is over; length and offsets are looked at when its turn
 * has come, so earlier work of the stream may still set them. *result then is the bytes moved or a negative errno
 * value, before later work of the stream begins. The file may be closed meanwhile: -EBADF or its result. */
XDS_API int xds_read_stream(xds_file* file, void* buffer, const size_t* length, const off_t* offset,
                            const off_t* buffer_offset, ssize_t* result, xds_stream* stream);
XDS_API int xds_write_stream(xds_file* file, const void* buffer, const size_t* length, const off_t* offset,
                             const off_t* buffer_offset, ssize_t* result, xds_stream* stream);
/* Calls a function in the stream's order, on a thread of the library's, where it may use the library and the
 * accelerator, but must not wait for the stream itself. */
XDS_API int xds_stream_call(xds_stream* stream, void (*call)(void*), void* argument);
/* Waits for all that was given before. A negative errno value of the first request that failed since the last call, and
 * its text in xds_error(). */
XDS_API int xds_stream_sync(xds_stream* stream);

typedef struct xds_many {
    uint32_t size;
    int32_t error; /* out: 0 or a negative errno value, this file's own */
    const char* path;
    void* buffer;
    uint64_t length;    /* room in the buffer, at most 4 MiB */
    uint64_t got;       /* out: bytes read */
    uint64_t file_size; /* out: bytes */
} xds_many;
/* Reads many small files, from their starts, in few messages. Returns how many failed. A negative errno value: the call
 * as a whole failed; where it had begun, each file says so and none counts. */
XDS_API int xds_read_many(xds_ctx* ctx, xds_many* files, unsigned count);

typedef struct xds_stats {
    uint32_t size;
    uint32_t connections;
    uint64_t requests, errors, messages, reconnects, registrations;
    uint64_t direct_bytes, staged_bytes, tcp_bytes, local_bytes;
    uint64_t verified_bytes, checksum_errors;
} xds_stats;
XDS_API int xds_stats_get(xds_ctx* ctx, xds_stats* stats);

/* Which way data would go between this file and this memory, and why, in one line. Returns the line's full length. */
XDS_API int xds_explain(xds_file* file, const void* buffer, size_t length, char* line, size_t room);

/* What memory an address is of. -EFAULT: none that the library knows. */
typedef struct xds_memory {
    uint32_t size;
    int32_t device; /* -1: none */
    char kind[16];  /* "host", "cuda", "sim" */
    uint64_t base;  /* start and bytes of its allocation; 0: unknown (host) */
    uint64_t bytes;
} xds_memory;
XDS_API int xds_memory_of(const void* address, xds_memory* memory);

/* A device of a kind of memory. -ENODEV: it has no device of that index, or this machine nothing of that kind. */
typedef struct xds_device {
    uint32_t size;
    uint32_t reserved;
    unsigned char uuid[16];
    uint64_t aperture_bytes; /* of its memory that other devices reach at once; 0: unknown */
} xds_device;
XDS_API int xds_device_info(const char* kind, unsigned index, xds_device* device);

/* Memory of a simulated accelerator, which only the library can touch: for tests of programs that have none. */
XDS_API void* xds_sim_alloc(size_t length, int device);
XDS_API int xds_sim_free(void* address);
XDS_API int xds_sim_copy_in(void* to, const void* from_host, size_t length);
XDS_API int xds_sim_copy_out(void* to_host, const void* from, size_t length);

#ifdef __cplusplus
}
#endif
#endif
