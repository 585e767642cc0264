#include "fsal_fabric/module.h"

#include <linux/capability.h>

#include "common/fault.h"
#include "common/identity/capabilities.h"
#include "common/log.h"
#include "fsal_fabric/attributes.h"
#include "fsal_fabric/data/data_ops.h"
#include "fsal_fabric/export.h"
#include "fsal_fabric/ops.h"
#include "fsal_fabric/status.h"

namespace fabric::fsal {

// Never destroyed: Ganesha's lists lead to it until the process ends.
Module& module() {
    static Module& only = *new Module;
    return only;
}

namespace {

constexpr char name[] = "FABRIC";

// Our lines go where the server's own go.
void log_to_ganesha(log::Level level, std::string_view line) {
    int length = static_cast<int>(line.size());
    if (level == log::Level::error) {
        LogCrit(COMPONENT_FSAL, "%.*s", length, line.data());
    } else if (level == log::Level::warn) {
        LogWarn(COMPONENT_FSAL, "%.*s", length, line.data());
    } else if (level == log::Level::info) {
        LogInfo(COMPONENT_FSAL, "%.*s", length, line.data());
    } else {
        LogDebug(COMPONENT_FSAL, "%.*s", length, line.data());
    }
}

// What another gateway or a program on the storage changed has to show at the next open, so nothing is answered from
// attributes or names that were read before, unless an export or EXPORT_DEFAULTS says otherwise (Attr_Expiration_Time).
void cache_no_attributes_by_default() {
    PTHREAD_RWLOCK_wrlock(&export_opt_lock);
    export_opt.def.expire_time_attr = 0;
    PTHREAD_RWLOCK_unlock(&export_opt_lock);
}

// Called by the main thread before there are others, so that what is dropped here is dropped for all that come.
Status start(Module& self) {
    FABRIC_RETURN_IF_ERROR(fault::arm_from_environment());
    // With this one, quotas and the file system's reserve would not hold for what we write for users.
    FABRIC_RETURN_IF_ERROR(identity::drop_capability(CAP_SYS_RESOURCE));
    Result<std::unique_ptr<identity::Pool>> pool = identity::Pool::start(self.options.identity_threads);
    if (!pool.ok()) return pool.status();
    self.identities = std::move(pool).value();
    // With this one, a write or truncate done for a user would leave the set-user-id and set-group-id bits. The
    // identity threads, which take it from a user themselves, keep it for root (write_as_caller).
    FABRIC_RETURN_IF_ERROR(identity::drop_capability(CAP_FSETID));
    FABRIC_RETURN_IF_ERROR(start_data(self.options.data));
    if (*self.options.burst_buffer) {
        FABRIC_RETURN_IF_ERROR(start_burst_buffer(self.options.burst_buffer, self.filesystems));
    }
    if (*self.options.metrics_address) {
        Result<std::unique_ptr<metrics::HttpServer>> server = metrics::HttpServer::start(self.options.metrics_address);
        if (!server.ok()) return Status::config("Metrics_Address: " + server.status().message());
        self.metrics_server = std::move(server).value();
        log::info("metrics at http://{}/metrics", self.options.metrics_address);
    }
    return {};
}

fsal_status_t init_config(fsal_module*, config_file_t file, config_error_type* errors) {
    Module& self = module();
    log::set_sink(log_to_ganesha);
    if (!read_options(file, self.options, *errors)) {
        refuse_start(*errors, "the FABRIC block has an error (see above)");
        return fsalstat(ERR_FSAL_INVAL, EINVAL);
    }
    cache_no_attributes_by_default();
    if (Status status = start(self); !status.ok()) {
        refuse_start(*errors, status.message().c_str());
        LogCrit(COMPONENT_FSAL, "FSAL FABRIC cannot start: %s", status.message().c_str());
        return fsalstat(ERR_FSAL_BAD_INIT, status.errno_value());
    }
    return fsal_ok();
}

int (*unload_by_ganesha)(fsal_module*) = nullptr;

// The last call before the process ends, when no request is left. Our threads end here: after it Ganesha's services are
// gone, and a destructor that runs at exit would find the threads running.
int stop(fsal_module* fsal) {
    Module& self = module();
    self.metrics_server.reset();
    stop_data();
    self.identities.reset();
    return unload_by_ganesha(fsal);
}

void describe(fsal_staticfsinfo_t& info) {
    info.maxfilesize = INT64_MAX;
    info.maxlink = 65000;
    info.maxnamelen = NAME_MAX;
    info.maxpathlen = PATH_MAX;
    info.no_trunc = true;
    info.chown_restricted = true;
    info.case_preserving = true;
    info.link_support = true;
    info.symlink_support = true;
    info.lock_support = true;
    info.unique_handles = true;
    info.acl_support = FSAL_ACLSUPPORT_ALLOW | FSAL_ACLSUPPORT_DENY;
    info.cansettime = true;
    info.homogenous = true;
    info.supported_attrs = supported_attributes;
    info.maxread = FSAL_MAXIOSIZE;
    info.maxwrite = FSAL_MAXIOSIZE;
    info.link_supports_permission_checks = true;
    info.xattr_support = true;
    info.allocate_own_read_buffer = true;
    info.compliant_eof_behavior = true;
    info.expire_time_parent = -1;
}

MODULE_INIT void load() {
    Module& self = module();
    if (register_fsal(&self, name, FSAL_MAJOR_VERSION, FSAL_MINOR_VERSION, FSAL_ID_NO_PNFS) != 0) {
        fprintf(stderr, "FSAL FABRIC could not be registered\n");
        return;
    }
    describe(self.fs_info);
    unload_by_ganesha = self.m_ops.unload;
    self.m_ops.unload = stop;
    self.m_ops.init_config = init_config;
    self.m_ops.create_export = create_export;
    self.m_ops.update_export = update_export;
    install_object_ops(self.object_ops);
}

MODULE_FINI void unload() { unregister_fsal(&module()); }

}  // namespace
}  // namespace fabric::fsal
