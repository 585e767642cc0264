// NVIDIA's own library, where it is installed: it takes the files that are not the gateway's.
#pragma once

#include "xds/cufile/abi.h"

namespace fabric::xds::cufile {

// All null: it is not there. Looked for at XDS_CUFILE_REAL, else in CUDA's and the system's folders, by full path,
// since its name is ours.
struct Real {
    decltype(&cuFileDriverOpen) open = nullptr;
    decltype(&cuFileDriverClose_v2) close = nullptr;
    decltype(&cuFileHandleRegister) add_file = nullptr;
    decltype(&cuFileHandleDeregister) remove_file = nullptr;
    decltype(&cuFileBufRegister) add_buffer = nullptr;
    decltype(&cuFileBufDeregister) remove_buffer = nullptr;
    decltype(&cuFileRead) read = nullptr;
    decltype(&cuFileWrite) write = nullptr;
    // Null in versions before 1.7.
    decltype(&cuFileReadAsync) read_async = nullptr;
    decltype(&cuFileWriteAsync) write_async = nullptr;
    decltype(&cuFileStreamRegister) add_stream = nullptr;
    decltype(&cuFileStreamDeregister) remove_stream = nullptr;

    bool there() const { return add_file != nullptr; }
    static Real load();
};

}  // namespace fabric::xds::cufile
