// How long a program waits for libxds on a machine without an accelerator or a network card: from before the library is
// loaded until a context is open, and how much of that its processors worked (which other work on the machine hardly
// changes). Two numbers, milliseconds, medians of several.
//
// usage: start_up LIBXDS HOST:PORT [RUNS]; each run is a process of its own
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "xds/client/include/xds.h"

namespace {

struct Times {
    double waited = -1, worked = -1;  // milliseconds; below 0: it failed
};

double worked_so_far() {
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

Times once(const char* library_path, const char* address) {
    using Clock = std::chrono::steady_clock;
    auto start = Clock::now();
    double before = worked_so_far();
    void* library = dlopen(library_path, RTLD_NOW);
    if (library == nullptr) return {};
    auto* open = reinterpret_cast<int (*)(const xds_options*, xds_ctx**)>(dlsym(library, "xds_ctx_open"));
    xds_options options{};
    options.size = sizeof options;
    options.address = address;
    xds_ctx* context = nullptr;
    if (open == nullptr || open(&options, &context) != 0) return {};
    // As the first use of memory does, which looks for accelerators.
    auto* of = reinterpret_cast<int (*)(const void*, xds_memory*)>(dlsym(library, "xds_memory_of"));
    xds_memory memory{};
    memory.size = sizeof memory;
    if (of == nullptr || of(&memory, &memory) != 0) return {};
    return {std::chrono::duration<double, std::milli>(Clock::now() - start).count(), worked_so_far() - before};
}

}  // namespace

double median(std::vector<double> values) {
    auto middle = values.begin() + static_cast<long>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

int main(int argc, char** argv) {
    if (argc < 3) return 2;
    std::vector<double> waited, worked;
    for (int run = argc > 3 ? std::atoi(argv[3]) : 11; run > 0; --run) {
        int ends[2];
        if (pipe(ends) != 0) return 1;
        if (fork() == 0) {
            Times time = once(argv[1], argv[2]);
            _exit(write(ends[1], &time, sizeof time) == sizeof time ? 0 : 1);
        }
        Times time;
        if (read(ends[0], &time, sizeof time) != sizeof time || time.waited < 0) return 1;
        waited.push_back(time.waited);
        worked.push_back(time.worked);
        close(ends[0]);
        close(ends[1]);
        while (wait(nullptr) > 0) {
        }
    }
    std::printf("%.3f %.3f\n", median(waited), median(worked));
    return 0;
}
