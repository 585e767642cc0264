#include "xds/cufile/real.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace fabric::xds::cufile {
namespace {

bool same_file(const char* one, const char* other) {
    struct stat first, second;
    return ::stat(one, &first) == 0 && ::stat(other, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

std::vector<std::string> candidates() {
    if (const char* path = std::getenv("XDS_CUFILE_REAL")) return {path};
    return {"/usr/local/cuda/lib64/libcufile.so.0", "/usr/local/cuda/targets/x86_64-linux/lib/libcufile.so.0",
            "/usr/lib/x86_64-linux-gnu/libcufile.so.0", "/usr/lib64/libcufile.so.0"};
}

template <typename F>
bool find(void* library, const char* name, F& function) {
    function = reinterpret_cast<F>(dlsym(library, name));
    return function != nullptr;
}

}  // namespace

Real Real::load() {
    Dl_info own{};
    (void)dladdr(reinterpret_cast<void*>(&Real::load), &own);
    for (const std::string& path : candidates()) {
        if (path.empty() || (own.dli_fname != nullptr && same_file(path.c_str(), own.dli_fname))) continue;
        void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) continue;
        Real real;
        find(library, "cuFileReadAsync", real.read_async);
        find(library, "cuFileWriteAsync", real.write_async);
        find(library, "cuFileStreamRegister", real.add_stream);
        find(library, "cuFileStreamDeregister", real.remove_stream);
        if (find(library, "cuFileDriverOpen", real.open) && find(library, "cuFileDriverClose_v2", real.close) &&
            find(library, "cuFileHandleRegister", real.add_file) &&
            find(library, "cuFileHandleDeregister", real.remove_file) &&
            find(library, "cuFileBufRegister", real.add_buffer) &&
            find(library, "cuFileBufDeregister", real.remove_buffer) && find(library, "cuFileRead", real.read) &&
            find(library, "cuFileWrite", real.write))
            return real;
        dlclose(library);
    }
    return {};
}

}  // namespace fabric::xds::cufile
