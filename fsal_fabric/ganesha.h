// The one place where Ganesha's headers, which are C, come into this layer.
#pragma once

// These hold templates in C++, so they must not be seen first inside extern "C".
#include <dirent.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <urcu-bp.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

// Headers left out on purpose: FSAL/fsal_localfs.h (a parameter named `this`; we keep our own list of file systems) and
// FSAL/fsal_config.h (not meant to be included from C++; Ganesha's default methods serve it).
extern "C" {
#include "FSAL/access_check.h"
#include "FSAL/fsal_commonlib.h"
#include "FSAL/fsal_init.h"
#include "config.h"
#include "config_parsing.h"
#include "export_mgr.h"
#include "fsal.h"
#include "fsal_api.h"
#include "fsal_convert.h"
#include "fsal_types.h"
#include "nfs4_acls.h"
#include "nfs_core.h"
#include "nfs_exports.h"
#include "nfs_init.h"
#include "sal_data.h"
}
