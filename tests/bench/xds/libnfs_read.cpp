// The NFS path as a peer of xds_pread: how fast libnfs reads a file into one buffer, and what CPU time it takes for it.
//
// usage: libnfs_read URL FILE SECONDS CONNECTIONS; prints MB/s and the process's CPU seconds per GB.
// A connection has eight requests of 1 MiB in flight (libnfs splits larger ones itself); what libnfs delivers is copied
// to where the program wants it, as nfs_pread() does.
#include <fcntl.h>
#include <nfsc/libnfs.h>
#include <poll.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
constexpr uint64_t piece = 1 << 20, depth = 8;

struct Connection;
struct Slot {
    Connection* owner;
    char* memory;
};

struct Connection {
    nfs_context* nfs = nullptr;
    nfsfh* file = nullptr;
    uint64_t size = 0, next = 0, bytes = 0;
    unsigned in_flight = 0;
    Clock::time_point end;
    std::vector<char> memory = std::vector<char>(piece * depth);
    Slot slots[depth];

    static void die(const char* what, nfs_context* nfs) {
        std::fprintf(stderr, "libnfs_read: %s: %s\n", what, nfs_get_error(nfs));
        std::exit(1);
    }
    static void arrived(int result, nfs_context* nfs, void* data, void* argument) {
        Slot& slot = *static_cast<Slot*>(argument);
        Connection& self = *slot.owner;
        if (result <= 0) die("read", nfs);
        std::memcpy(slot.memory, data, static_cast<size_t>(result));
        self.bytes += static_cast<uint64_t>(result);
        --self.in_flight;
        if (Clock::now() < self.end) self.ask(slot);
    }
    void ask(Slot& slot) {
        if (nfs_pread_async(nfs, file, next, piece, &arrived, &slot) != 0) die("read", nfs);
        next = next + 2 * piece > size ? 0 : next + piece;
        ++in_flight;
    }
    void run(const std::string& url, const std::string& path) {
        nfs = nfs_init_context();
        nfs_url* parsed = nfs_parse_url_dir(nfs, url.c_str());
        if (parsed == nullptr || nfs_mount(nfs, parsed->server, parsed->path) != 0) die("mount", nfs);
        nfs_stat_64 status;
        if (nfs_open(nfs, path.c_str(), O_RDONLY, &file) != 0 || nfs_fstat64(nfs, file, &status) != 0) die("open", nfs);
        size = status.nfs_size;
        for (uint64_t i = 0; i < depth; ++i) {
            slots[i] = {this, memory.data() + i * piece};
            ask(slots[i]);
        }
        while (in_flight > 0) {
            pollfd wait{nfs_get_fd(nfs), static_cast<short>(nfs_which_events(nfs)), 0};
            if (poll(&wait, 1, 10'000) <= 0 || nfs_service(nfs, wait.revents) < 0) die("service", nfs);
        }
        nfs_close(nfs, file);
        nfs_destroy_url(parsed);
        nfs_destroy_context(nfs);
    }
};

double cpu_seconds() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 5) return 2;
    auto start = Clock::now();
    double cpu = cpu_seconds();
    std::vector<Connection> connections(static_cast<size_t>(std::atoi(argv[4])));
    std::vector<std::thread> threads;
    for (Connection& one : connections) {
        one.end = start + std::chrono::milliseconds(static_cast<int64_t>(std::atof(argv[3]) * 1000));
        threads.emplace_back([&one, argv] { one.run(argv[1], argv[2]); });
    }
    uint64_t bytes = 0;
    for (std::thread& thread : threads) thread.join();
    for (const Connection& one : connections) bytes += one.bytes;
    double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    std::printf("%.1f %.4f\n", static_cast<double>(bytes) / 1e6 / seconds,
                (cpu_seconds() - cpu) / (static_cast<double>(bytes) / 1e9));
    return 0;
}
