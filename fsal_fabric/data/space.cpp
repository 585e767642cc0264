// Holes, reserved space and advice (RFC 7862 §15.1, §15.4, §15.5, §15.11).
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "common/fault.h"
#include "fsal_fabric/caller.h"
#include "fsal_fabric/data/descriptor.h"
#include "fsal_fabric/data/ops.h"
#include "fsal_fabric/data/write_back.h"

namespace fabric::fsal {

// At or past the end SEEK answers NXIO; data is not found behind the last hole, where it answers the end of file.
fsal_status_t seek2(fsal_obj_handle* handle, state_t* state, io_info* info) {
    int whence = 0;
    if (info->io_content.what == NFS4_CONTENT_DATA)
        whence = SEEK_DATA;
    else if (info->io_content.what == NFS4_CONTENT_HOLE)
        whence = SEEK_HOLE;
    else
        return fsalstat(ERR_FSAL_UNION_NOTSUPP, 0);
    uint64_t offset = info->io_content.hole.di_offset;
    if (int error = drain_first(from(handle))) return to_fsal_errno(error);

    FileIo io;
    fsal_status_t status = io.start(from(handle), state, FSAL_O_ANY, true);
    if (FSAL_IS_ERROR(status)) return status;
    struct stat file {};
    if (fstat(io.fd(), &file) != 0) return to_fsal_errno(errno);
    if (offset >= static_cast<uint64_t>(file.st_size)) return fsalstat(ERR_FSAL_NXIO, ENXIO);
    off_t found = lseek(io.fd(), static_cast<off_t>(offset), whence);
    if (found < 0 && errno != ENXIO) return to_fsal_errno(errno);
    info->io_eof = found < 0 || found >= file.st_size;
    info->io_content.hole.di_offset = static_cast<uint64_t>(found < 0 ? file.st_size : found);
    return fsal_ok();
}

fsal_status_t fallocate(fsal_obj_handle* handle, state_t* state, uint64_t offset, uint64_t length, bool allocate) {
    if (offset > INT64_MAX || length > INT64_MAX - offset) return fsalstat(ERR_FSAL_FBIG, EFBIG);
    if (length == 0) return fsal_ok();
    if (int error = drain_first(from(handle))) return to_fsal_errno(error);
    FileIo io;
    fsal_status_t status = io.start(from(handle), state, FSAL_O_WRITE, false);
    if (FSAL_IS_ERROR(status)) return status;
    if (int error = fault::hit("backing.fallocate")) return to_fsal_errno(error);
    int mode = allocate ? 0 : FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    int error = write_as_caller(io.fd(), [&] {
        while (::fallocate(io.fd(), mode, static_cast<off_t>(offset), static_cast<off_t>(length)) != 0)
            if (errno != EINTR) return errno;
        return 0;
    });
    if (error == 0) from(handle).note_change();
    return to_fsal_errno(error);
}

// The hints that the kernel took remain in `hints`, the others are cleared, as the reply is to say.
fsal_status_t io_advise2(fsal_obj_handle* handle, state_t* state, io_hints* hints) {
    struct Known {
        int hint;
        int advice;
    };
    constexpr Known known[] = {
        {IO_ADVISE4_NORMAL, POSIX_FADV_NORMAL},     {IO_ADVISE4_SEQUENTIAL, POSIX_FADV_SEQUENTIAL},
        {IO_ADVISE4_RANDOM, POSIX_FADV_RANDOM},     {IO_ADVISE4_WILLNEED, POSIX_FADV_WILLNEED},
        {IO_ADVISE4_DONTNEED, POSIX_FADV_DONTNEED}, {IO_ADVISE4_NOREUSE, POSIX_FADV_NOREUSE}};
    FileIo io;
    fsal_status_t status = io.start(from(handle), state, FSAL_O_ANY, true);
    if (FSAL_IS_ERROR(status)) return status;
    off_t offset = static_cast<off_t>(std::min<uint64_t>(hints->offset, INT64_MAX));
    off_t length = static_cast<off_t>(std::min<uint64_t>(hints->count, static_cast<uint64_t>(INT64_MAX - offset)));
    uint32_t taken = 0;
    for (const Known& one : known) {
        uint32_t bit = uint32_t{1} << one.hint;
        if ((hints->hints & bit) != 0 && posix_fadvise(io.fd(), offset, length, one.advice) == 0) taken |= bit;
    }
    hints->hints = taken;
    return fsal_ok();
}

}  // namespace fabric::fsal
