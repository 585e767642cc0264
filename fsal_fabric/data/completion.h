// Telling Ganesha that a read2 or write2 is done.
#pragma once

#include "fsal_fabric/ganesha.h"

namespace fabric::fsal {

// Made on the thread that Ganesha called, while its op_ctx is set. Either here() or elsewhere() is called, once.
class Completion {
  public:
    Completion(fsal_obj_handle* handle, fsal_async_cb done, fsal_io_arg* arguments, void* caller_data)
        : handle_(handle),
          done_(done),
          arguments_(arguments),
          caller_data_(caller_data),
          export_(op_ctx->ctx_export),
          fsal_export_(op_ctx->fsal_export),
          creds_(op_ctx->creds),
          perms_(op_ctx->export_perms) {}

    // On the thread and in the call that made this.
    void here(fsal_status_t status) const { done_(handle_, status, arguments_, caller_data_); }
    // On any other thread. The callback runs Ganesha's code, the cache's above all, which looks at op_ctx.
    void elsewhere(fsal_status_t status) const;

    fsal_obj_handle* object() const { return handle_; }
    fsal_io_arg& arguments() const { return *arguments_; }

  private:
    fsal_obj_handle* handle_;
    fsal_async_cb done_;
    fsal_io_arg* arguments_;
    void* caller_data_;
    gsh_export* export_;
    fsal_export* fsal_export_;
    user_cred creds_;  // the list of groups belongs to the request, which waits for us
    export_perms perms_;
};

}  // namespace fabric::fsal
