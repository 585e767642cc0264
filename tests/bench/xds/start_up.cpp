// How long a program waits for libxds on a machine without an accelerator or a network card: from before the library is
// loaded until a context is open. Milliseconds, the median of several.
//
// usage: start_up LIBXDS HOST:PORT [RUNS]; each run is a process of its own
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "xds/client/include/xds.h"

namespace {

// Milliseconds; below 0: it failed.
double once(const char* library_path, const char* address) {
    using Clock = std::chrono::steady_clock;
    auto start = Clock::now();
    void* library = dlopen(library_path, RTLD_NOW);
    if (library == nullptr) return -1;
    auto* open = reinterpret_cast<int (*)(const xds_options*, xds_ctx**)>(dlsym(library, "xds_ctx_open"));
    xds_options options{};
    options.size = sizeof options;
    options.address = address;
    xds_ctx* context = nullptr;
    if (open == nullptr || open(&options, &context) != 0) return -1;
    // As the first use of memory does, which looks for accelerators.
    auto* of = reinterpret_cast<int (*)(const void*, xds_memory*)>(dlsym(library, "xds_memory_of"));
    xds_memory memory{};
    memory.size = sizeof memory;
    if (of == nullptr || of(&memory, &memory) != 0) return -1;
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) return 2;
    std::vector<double> times;
    for (int run = argc > 3 ? std::atoi(argv[3]) : 11; run > 0; --run) {
        int ends[2];
        if (pipe(ends) != 0) return 1;
        if (fork() == 0) {
            double time = once(argv[1], argv[2]);
            _exit(write(ends[1], &time, sizeof time) == sizeof time ? 0 : 1);
        }
        double time = -1;
        if (read(ends[0], &time, sizeof time) != sizeof time || time < 0) return 1;
        times.push_back(time);
        close(ends[0]);
        close(ends[1]);
        while (wait(nullptr) > 0) {
        }
    }
    std::nth_element(times.begin(), times.begin() + static_cast<long>(times.size() / 2), times.end());
    std::printf("%.3f\n", times[times.size() / 2]);
    return 0;
}
