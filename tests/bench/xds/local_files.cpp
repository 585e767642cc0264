// The peer of xds_read_many: how many small files one thread opens, reads and closes a second, page cache warm.
//
// usage: local_files FOLDER SECONDS; prints files/s
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(argv[1])) paths.push_back(entry.path());
    if (paths.empty()) return 1;
    static char memory[1 << 16];
    using Clock = std::chrono::steady_clock;
    auto pass = [&] {
        for (const std::string& path : paths) {
            int fd = ::open(path.c_str(), O_RDONLY);
            if (fd < 0 || ::read(fd, memory, sizeof memory) <= 0) std::exit(1);
            ::close(fd);
        }
    };
    pass();
    auto start = Clock::now();
    double files = 0, seconds = 0;
    while (seconds < std::atof(argv[2])) {
        pass();
        files += static_cast<double>(paths.size());
        seconds = std::chrono::duration<double>(Clock::now() - start).count();
    }
    std::printf("%.1f\n", files / seconds);
    return 0;
}
