// Opening and closing the descriptors behind Ganesha's fsal_fd.
#pragma once

#include "fsal_fabric/object.h"
#include "fsal_fabric/status.h"

namespace fabric::fsal {

// open(2)'s flags for Ganesha's.
int posix_flags(fsal_openflags_t flags);

void init_descriptor(Fd& descriptor, fsal_fd_type type, fsal_export* owner);
// Opens the object as the server; when no descriptor is left, after others were closed. The caller does fd work
// (fsal_start_fd_work) or owns the descriptor alone.
fsal_status_t open_descriptor(Object& object, Fd& descriptor, fsal_openflags_t flags);
// ERR_FSAL_NOT_OPENED when it is not open.
fsal_status_t close_descriptor(Fd& descriptor);
// The same file with O_DIRECT, or -1 where that cannot be had. The caller does I/O on the descriptor
// (fsal_start_io), so it cannot be closed meanwhile; several may ask at once.
int direct_descriptor(Object& object, Fd& descriptor);

// Ganesha's obj_ops: close_func and reopen_func.
fsal_status_t close_func(fsal_obj_handle* handle, fsal_fd* base);
fsal_status_t reopen_func(fsal_obj_handle* handle, fsal_openflags_t flags, fsal_fd* base);

// One I/O on a file: a descriptor that may be used for it, found or opened, and given back at the end. Movable, for it
// travels with an asynchronous call.
class FileIo {
  public:
    FileIo() = default;
    FileIo(FileIo&& other) noexcept;
    FileIo& operator=(FileIo&&) = delete;
    ~FileIo() { finish(); }

    // What `state` (may be null) and the share reservations allow (fsal_start_io).
    fsal_status_t start(Object& object, state_t* state, fsal_openflags_t flags, bool bypass, bool for_locks = false);
    // Without regard to state and share reservations, for any open mode.
    fsal_status_t start_any(Object& object);
    void finish();

    Fd& descriptor() const { return Fd::from(used_); }
    int fd() const { return descriptor().fd; }
    Object& object() const { return *object_; }

  private:
    void prepare(Object& object);
    Object* object_ = nullptr;
    fsal_fd* used_ = nullptr;
    fsal_openflags_t shared_ = FSAL_O_CLOSED;  // a temporary share reservation to give back
    Fd temporary_;
};

}  // namespace fabric::fsal
