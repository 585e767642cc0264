// Measures the burst buffer of one node beside the plain file system on the same disk.
//
//     bench_bb FOLDER [--files 20000] [--threads 8] [--runs 3] [--start 0] [--json FILE]
//
// - small files, cold, in random order: through the cache's API against open + read + close
// - staging them against `cp -r` by as many processes
// - hits of whole chunks against O_DIRECT preads of the same size: median and 99th percentile
// - three epochs after staging: bytes that are read from the backing store; a loop over twice what the disk may hold
// - with --churn N: N files taken and dropped, one after the other: what the store grows by
// - with --start N: opening an index of N records
//
// It drops the page cache before each run, which needs root; FOLDER should be on the disk that counts, with room for
// three copies of the files.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
#include <latch>
#include <random>
#include <thread>

#include "burstbuffer/cache/cache.h"
#include "burstbuffer/cache/cache_metrics.h"
#include "burstbuffer/cache/file_backing.h"
#include "burstbuffer/stage/stager.h"
#include "tests/bench/bb/report.h"
#include "tests/unit/burstbuffer/sample.h"

namespace fabric::bench {
namespace {

using index::ChunkKey;
using std::chrono::steady_clock;

struct Options {
    std::string folder;
    size_t files = 20000;
    size_t threads = 8;
    size_t runs = 3;
    size_t start = 0;
    size_t churn = 0;
    std::string json;
};

[[noreturn]] void give_up(const std::string& what) {
    fmt::print(stderr, "bench_bb: {}\n", what);
    exit(1);
}
void need(const Status& status) {
    if (!status.ok()) give_up(status.message());
}

double seconds(const std::function<void()>& work) {
    auto begin = steady_clock::now();
    work();
    return std::chrono::duration<double>(steady_clock::now() - begin).count();
}

void drop_page_cache() {
    sync();
    int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "3", 1) != 1) give_up("the page cache cannot be dropped: run it as root");
    close(fd);
}

// `each` for every number below `count`, by so many threads.
void in_parallel(size_t count, size_t threads, const std::function<void(size_t)>& each) {
    std::atomic<size_t> next{0};
    std::vector<std::jthread> all;
    for (size_t t = 0; t < threads; ++t) {
        all.emplace_back([&] {
            for (size_t i = next++; i < count; i = next++) each(i);
        });
    }
}

std::string name_of(size_t file) { return fmt::format("{:03}/{:06}", file / 1000, file); }

void make_files(const std::string& tree, size_t count, size_t size) {
    std::mt19937_64 random(size);
    std::string content(size, '\0');
    for (size_t i = 0; i < count; ++i) {
        for (size_t at = 0; at + sizeof(uint64_t) <= size; at += 512) {
            uint64_t word = random();
            memcpy(content.data() + at, &word, sizeof(word));
        }
        std::filesystem::create_directories(std::filesystem::path(tree) / fmt::format("{:03}", i / 1000));
        std::ofstream(tree + "/" + name_of(i)) << content;
    }
}

// A node's parts, on one disk.
struct Parts {
    explicit Parts(const std::string& folder, uint64_t capacity = 0) : pool({.limit = size_t{1} << 30}) {
        auto started = io::Engine::start({});
        need(started.status());
        engine = std::move(started).value();
        std::filesystem::create_directories(folder);
        disks::DiskOptions disk;
        disk.folder = folder;
        disk.spare_segments = 1;
        disk.capacity = capacity;
        if (capacity != 0) disk.segment_size = std::min(disk.segment_size, capacity / 64);
        auto opened = disks::Disks::open({&disk, 1}, *engine, pool);
        need(opened.status());
        disks = std::move(opened).value();
        auto open = [this](const fs::FileId& file, int flags) -> Result<UniqueFd> {
            return filesystems.find(file.filesystem())->open(file, flags);
        };
        backing = std::make_unique<cache::FileBacking>(open, 16);
        // What the disk does is measured, not memory.
        cache::Cache::Options options;
        options.memory = 0;
        cache = std::make_unique<cache::Cache>(*disks, *backing, pool, options);
    }

    fs::FilesystemTable filesystems;
    io::BufferPool pool;
    std::unique_ptr<io::Engine> engine;
    std::unique_ptr<disks::Disks> disks;
    std::unique_ptr<cache::FileBacking> backing;
    std::unique_ptr<cache::Cache> cache;
};

struct Awaited : cache::Read {
    std::latch over{1};
};

struct Buffer {
    explicit Buffer(size_t size)
        : memory(static_cast<char*>(std::aligned_alloc(4096, (size + 4095) / 4096 * 4096)), free) {}
    std::unique_ptr<char, decltype(&free)> memory;
};

// False: the cache left it to its reader.
bool served_by_cache(Parts& parts, const stage::TreeFile& file) {
    thread_local Buffer buffer(ChunkKey::chunk_size);
    Awaited read;
    read.file = file.id;
    read.version = file.version;
    read.size = file.version.size;
    read.to = buffer.memory.get();
    read.finished = [](cache::Read& done) { static_cast<Awaited&>(done).over.count_down(); };
    parts.cache->start(read);
    read.over.wait();
    if (read.outcome == cache::Read::Outcome::failed) give_up(file.path + ": " + read.status.message());
    return read.outcome == cache::Read::Outcome::served && read.bytes == file.version.size;
}

void read_by_cache(Parts& parts, const stage::TreeFile& file) {
    if (!served_by_cache(parts, file)) give_up("not served: " + file.path);
}

void read_by_name(const std::string& path, size_t size) {
    thread_local Buffer buffer(ChunkKey::chunk_size);
    UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file || pread(file.get(), buffer.memory.get(), size, 0) != static_cast<ssize_t>(size))
        give_up("cannot read " + path);
}

std::vector<stage::TreeFile> list(Parts& parts, const std::string& tree, std::vector<fs::FilesystemPtr>& in_use) {
    std::vector<stage::TreeFile> files;
    stage::walk(tree,
                {.filesystems = parts.filesystems,
                 .met = [&](const fs::FilesystemPtr& one) { in_use = {one}; },
                 .file =
                     [&](stage::TreeFile&& file) {
                         files.push_back(std::move(file));
                         return true;
                     },
                 .problem = [](const std::string& path, const Status& why) { give_up(path + ": " + why.message()); }});
    return files;
}

void stage_tree(Parts& parts, const std::string& tree, size_t workers) {
    stage::Stager stager(*parts.cache, parts.filesystems, parts.pool);
    auto result = stager.run({.paths = {tree}, .workers = static_cast<unsigned>(workers)},
                             [](const stage::Progress&) { return true; });
    need(result.status());
    if (!result->complete) give_up("staging is not complete: " + result->failures.front().cause);
}

void small_files(const Options& options, size_t size, Report& report) {
    std::string tree = options.folder + fmt::format("/tree{}", size);
    make_files(tree, options.files, size);
    std::vector<double> staged, copied, cached, plain;
    std::mt19937 random(1);
    for (size_t run = 0; run < options.runs; ++run) {
        std::string disk = options.folder + "/disk", copy = options.folder + "/copy";
        std::filesystem::remove_all(disk), std::filesystem::remove_all(copy);
        auto count = static_cast<double>(options.files);
        drop_page_cache();
        std::string command =
            fmt::format("mkdir '{1}' && cd '{0}' && ls | xargs -P {2} -I@ cp -r @ '{1}/' && sync -f '{1}'", tree, copy,
                        options.threads);
        copied.push_back(count / seconds([&] {
                             if (system(command.c_str()) != 0) give_up("cp failed");
                         }));
        std::filesystem::remove_all(copy);
        drop_page_cache();
        Parts parts(disk);
        staged.push_back(count / seconds([&] {
                             stage_tree(parts, tree, options.threads);
                             sync();
                         }));
        std::vector<fs::FilesystemPtr> in_use;
        std::vector<stage::TreeFile> files = list(parts, tree, in_use);
        std::ranges::shuffle(files, random);
        drop_page_cache();
        plain.push_back(count / seconds([&] {
                            in_parallel(files.size(), options.threads,
                                        [&](size_t i) { read_by_name(files[i].path, size); });
                        }));
        drop_page_cache();
        cached.push_back(count / seconds([&] {
                             in_parallel(files.size(), options.threads,
                                         [&](size_t i) { read_by_cache(parts, files[i]); });
                         }));
    }
    std::string kib = fmt::format("_{}k", size / 1024);
    report.add("cold_small_files" + kib, "files/s", "higher", "open+read+close", cached, plain);
    report.add("staging" + kib, "files/s", "higher", "parallel cp -r, sync", staged, copied);
    std::filesystem::remove_all(tree);
    std::filesystem::remove_all(options.folder + "/disk");
}

double percentile(std::vector<double> values, double share) {
    std::ranges::sort(values);
    return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

void hit_latency(const Options& options, size_t size, Report& report) {
    constexpr size_t chunks = 256, reads = 2000;
    Parts parts(options.folder + "/disk");
    std::string path = options.folder + "/plain";
    Buffer buffer(ChunkKey::chunk_size);
    UniqueFd plain(open(path.c_str(), O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600));
    std::vector<stage::TreeFile> files;
    for (size_t i = 0; i < chunks; ++i) {
        memset(buffer.memory.get(), static_cast<int>(i), size);
        stage::TreeFile file{path, sample_file(i), {size, 1, 1}};
        disks::Entry entry{{file.id, file.version, 0}, {buffer.memory.get(), size}};
        if (parts.cache->take({&entry, 1}, {}) != 1) give_up("the disk takes nothing");
        if (pwrite(plain.get(), buffer.memory.get(), size, static_cast<off_t>(i * size)) != static_cast<ssize_t>(size))
            give_up(path);
        files.push_back(file);
    }
    fsync(plain.get());
    std::mt19937 random(3);
    std::vector<double> ours50, ours99, theirs50, theirs99;
    for (size_t run = 0; run < options.runs; ++run) {
        std::vector<double> ours, theirs;
        for (size_t i = 0; i < reads; ++i) {
            size_t number = random() % chunks;
            ours.push_back(1e6 * seconds([&] { read_by_cache(parts, files[number]); }));
            theirs.push_back(1e6 * seconds([&] {
                                 if (pread(plain.get(), buffer.memory.get(), size, static_cast<off_t>(number * size)) !=
                                     static_cast<ssize_t>(size))
                                     give_up(path);
                             }));
        }
        ours50.push_back(percentile(ours, 0.5)), ours99.push_back(percentile(ours, 0.99));
        theirs50.push_back(percentile(theirs, 0.5)), theirs99.push_back(percentile(theirs, 0.99));
    }
    std::string kib = fmt::format("_{}k", size / 1024);
    report.add("hit_p50" + kib, "us", "lower", "O_DIRECT pread", ours50, theirs50);
    report.add("hit_p99" + kib, "us", "lower", "O_DIRECT pread", ours99, theirs99);
    std::filesystem::remove(path);
    std::filesystem::remove_all(options.folder + "/disk");
}

// Bytes from the backing store, through the cache or past it, in so many reads of all files.
double from_backing(Parts& parts, std::vector<stage::TreeFile> files, size_t epochs, std::mt19937* shuffled) {
    int64_t before = cache::metrics().fetched_bytes.value();
    uint64_t passed = 0;
    for (size_t epoch = 0; epoch < epochs; ++epoch) {
        if (shuffled != nullptr) std::ranges::shuffle(files, *shuffled);
        for (const stage::TreeFile& file : files) {
            if (served_by_cache(parts, file)) continue;
            read_by_name(file.path, file.version.size);
            passed += file.version.size;
        }
    }
    return static_cast<double>(cache::metrics().fetched_bytes.value() - before) + static_cast<double>(passed);
}

void epochs(const Options& options, Report& report) {
    constexpr size_t size = 128 << 10, count = 2000, total = size * count;
    std::string tree = options.folder + "/epochs";
    make_files(tree, count, size);
    std::vector<double> staged, looped;
    std::mt19937 random(5);
    std::vector<fs::FilesystemPtr> in_use;
    for (size_t run = 0; run < options.runs; ++run) {
        std::filesystem::remove_all(options.folder + "/disk");
        Parts parts(options.folder + "/disk");
        stage_tree(parts, tree, options.threads);
        staged.push_back(from_backing(parts, list(parts, tree, in_use), 3, &random));
    }
    for (size_t run = 0; run < options.runs; ++run) {
        std::filesystem::remove_all(options.folder + "/disk");
        Parts parts(options.folder + "/disk", total / 2);
        std::vector<stage::TreeFile> files = list(parts, tree, in_use);
        from_backing(parts, files, 3, nullptr);  // until it has found its hot half
        looped.push_back(100 * (1 - from_backing(parts, files, 4, nullptr) / (4.0 * total)));
    }
    report.add("three_epochs_after_staging", "B from the backing store", "lower", "", staged, {});
    report.add("loop_over_twice_the_cache", "% hits", "higher", "", looped, {});
    std::filesystem::remove_all(tree);
    std::filesystem::remove_all(options.folder + "/disk");
}

double bytes_below(const std::string& folder) {
    double bytes = 0;
    for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
        struct stat status {};
        if (lstat(file.path().c_str(), &status) == 0) bytes += static_cast<double>(status.st_blocks) * 512;
    }
    return bytes;
}

// Files that come and go: a thousand are there at any time.
void churn(const Options& options, Report& report) {
    constexpr size_t held = 1000, size = 16 << 10;
    std::string disk = options.folder + "/disk";
    std::filesystem::remove_all(disk);
    Parts parts(disk, uint64_t{512} << 20);  // a few times what is held
    Buffer buffer(size);
    memset(buffer.memory.get(), 'c', size);
    double index = 0, segments = 0;
    auto took = seconds([&] {
        for (size_t i = 0; i < options.churn; ++i) {
            disks::Entry entry{{sample_file(i), {size, 1, 1}, 0}, {buffer.memory.get(), size}};
            if (parts.cache->take({&entry, 1}, {}) != 1) give_up("the disk takes nothing");
            if (i >= held) need(parts.disks->drop_file(sample_file(i - held)));
            if (i == options.churn / 5)
                index = bytes_below(disk + "/index"), segments = bytes_below(disk + "/segments");
        }
    });
    report.add("churn_index_growth", "end to a fifth", "lower", "", {bytes_below(disk + "/index") / index}, {});
    report.add("churn_segments_growth", "end to a fifth", "lower", "", {bytes_below(disk + "/segments") / segments},
               {});
    report.add("churn_rate", "files/s", "higher", "", {static_cast<double>(options.churn) / took}, {});
    std::filesystem::remove_all(disk);
}

double resident_mib() {
    std::ifstream statm("/proc/self/statm");
    double total = 0, resident = 0;
    statm >> total >> resident;
    return resident * 4096 / (1 << 20);
}

void start_up(const Options& options, Report& report) {
    std::string folder = options.folder + "/index";
    std::filesystem::remove_all(folder);
    {
        auto opened = index::Index::open(folder, {});
        need(opened.status());
        for (size_t i = 0; i < options.start;) {
            index::Index::Change change;
            for (size_t batch = 0; batch < 10000 && i < options.start; ++batch, ++i) {
                index::ChunkRecord record{.place = {static_cast<uint32_t>(i / 65536), static_cast<uint32_t>(i % 65536)},
                                          .length = 4096};
                change.put(sample_key(i), record);
            }
            need((*opened)->apply(change, false));
        }
    }
    double bytes = 0;
    for (const auto& file : std::filesystem::directory_iterator(folder)) bytes += static_cast<double>(file.file_size());
    std::vector<double> times, memory;
    for (size_t run = 0; run < options.runs; ++run) {
        drop_page_cache();
        double before = resident_mib();
        times.push_back(seconds([&] {
            auto opened = index::Index::open(folder, {});
            need(opened.status());
            auto uses = (*opened)->segments();
            need(uses.status());
            for (const auto& [segment, use] : *uses) need((*opened)->end_of(segment).status());
            need((*opened)->last_dirty().status());
            memory.push_back(resident_mib() - before);
        }));
    }
    report.add(fmt::format("start_{}_records", options.start), "s", "lower", "", times, {});
    report.add(fmt::format("start_{}_records_memory", options.start), "MiB", "lower", "", memory, {});
    report.add("index_bytes_per_record", "B", "lower", "", {bytes / static_cast<double>(options.start)}, {});
    std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace fabric::bench

int main(int argc, char** argv) {
    using namespace fabric::bench;
    Options options;
    CLI::App app("bench_bb measures the burst buffer of one node beside the plain file system on the same disk.");
    app.add_option("FOLDER", options.folder, "an empty folder on that disk")->required();
    app.add_option("--files", options.files, "small files of each size")->capture_default_str();
    app.add_option("--threads", options.threads, "readers, and workers of staging and cp")->capture_default_str();
    app.add_option("--runs", options.runs, "medians of so many")->capture_default_str()->check(CLI::PositiveNumber);
    app.add_option("--start", options.start, "records of the index that is opened; 0: none")->capture_default_str();
    app.add_option("--churn", options.churn, "files that come and go; 0: none")->capture_default_str();
    app.add_option("--json", options.json, "also write the figures to this file");
    CLI11_PARSE(app, argc, argv);
    Report report;
    if (options.files > 0) {
        for (size_t size : {4 << 10, 16 << 10, 128 << 10}) small_files(options, size, report);
    }
    for (size_t size : {128 << 10, 1 << 20}) hit_latency(options, size, report);
    epochs(options, report);
    if (options.churn > 0) churn(options, report);
    if (options.start > 0) start_up(options, report);
    return options.json.empty() || report.write(options.json) ? 0 : 1;
}
