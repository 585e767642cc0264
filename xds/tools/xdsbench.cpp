// xdsbench: measures an XDS target: operation, request size, depth, threads, kind of memory; path and CPU in the
// report.
#include <fcntl.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "xds/tools/remote.h"

namespace fabric::xds::tools {
namespace {

using Clock = std::chrono::steady_clock;

struct Arguments {
    std::vector<std::string> operations{"write", "read", "randread"}, kinds{"host"};
    std::string size_text = "256MiB", block_text = "1MiB", json, address, agent;
    unsigned depth = 8, threads = 1;
    double seconds = 3;
    bool verify = false;
    uint64_t size = 0, block = 0;
};

// Memory of a kind for one thread.
class Memory {
  public:
    Memory(bool sim, size_t length) : sim_(sim), host_(sim ? 0 : length, 'b') {
        data_ = sim ? static_cast<char*>(xds_sim_alloc(length, 0)) : host_.data();
    }
    ~Memory() {
        if (sim_) xds_sim_free(data_);
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    char* data() const { return data_; }

  private:
    bool sim_;
    std::vector<char> host_;
    char* data_ = nullptr;
};

struct Outcome {
    uint64_t bytes = 0, requests = 0;
    uint32_t path = XDS_PATH_NONE;
    Status status;
};

double cpu_seconds() {
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// One thread's requests on its own file, `depth` at once, until `end`.
class Transfers {
  public:
    Transfers(const Arguments& arguments, const Context& context, const File& file, Memory& memory, bool write,
              bool random)
        : arguments_(arguments), context_(context), file_(file), memory_(memory), write_(write), random_(random) {}

    Outcome run(Clock::time_point end) {
        xds_queue* queue = nullptr;
        if (int result = xds_queue_create(context_.get(), arguments_.depth, &queue); result != 0)
            outcome_.status = last_failure(result, "queue");
        unsigned in_flight = 0;
        for (unsigned slot = 0; slot < arguments_.depth && outcome_.status.ok(); ++slot)
            in_flight += submit(queue, slot);
        while (in_flight > 0 && outcome_.status.ok()) {
            xds_completion done{};
            done.size = sizeof done;
            if (int got = xds_queue_wait(queue, &done, 1, 1, -1); got != 1) outcome_.status = last_failure(got, "wait");
            --in_flight;
            if (done.result != static_cast<int64_t>(arguments_.block))
                outcome_.status = {Code::io, EIO, done.result < 0 ? done.reason : "a request ended short"};
            outcome_.bytes += arguments_.block;
            ++outcome_.requests;
            outcome_.path = done.path;
            if (outcome_.status.ok() && Clock::now() < end)
                in_flight += submit(queue, static_cast<unsigned>(done.cookie));
        }
        xds_queue_destroy(queue);
        return outcome_;
    }

  private:
    unsigned submit(xds_queue* queue, unsigned slot) {
        uint64_t blocks = std::max<uint64_t>(arguments_.size / arguments_.block, 1);
        uint64_t block = random_ ? engine_() % blocks : next_++ % blocks;
        xds_io io{sizeof(xds_io),
                  static_cast<uint32_t>(write_ ? XDS_WRITE : XDS_READ),
                  file_.get(),
                  memory_.data() + slot * arguments_.block,
                  arguments_.block,
                  block * arguments_.block,
                  slot};
        int taken = xds_queue_submit(queue, &io, 1);
        if (taken != 1) outcome_.status = last_failure(taken, "submit");
        return taken == 1 ? 1 : 0;
    }

    const Arguments& arguments_;
    const Context& context_;
    const File& file_;
    Memory& memory_;
    const bool write_, random_;
    std::mt19937_64 engine_{1};
    uint64_t next_ = 0;
    Outcome outcome_;
};

std::string file_name(unsigned thread) { return "xdsbench." + std::to_string(thread); }

// A file of arguments.size bytes, made unless it is there.
Status make_file(const Context& context, const std::string& name, uint64_t size) {
    Result<File> file = File::open(context, name, O_RDWR | O_CREAT, 0644);
    if (!file.ok()) return file.status();
    Result<uint64_t> have = file->size();
    if (!have.ok()) return have.status();
    std::vector<char> zeros(std::min<uint64_t>(size, 8 << 20), 'x');
    for (uint64_t at = *have; at < size;) {
        size_t length = std::min<uint64_t>(zeros.size(), size - at);
        ssize_t wrote = xds_pwrite(file->get(), zeros.data(), length, static_cast<off_t>(at));
        if (wrote <= 0) return last_failure(wrote, "write of " + name);
        at += static_cast<uint64_t>(wrote);
    }
    int result = xds_fsync(file->get());
    return result == 0 ? Status() : last_failure(result, "flush of " + name);
}

// The way that most bytes of a context went since `before`.
uint32_t most_used_path(const Context& context, const xds_stats& before) {
    xds_stats now{};
    now.size = sizeof now;
    if (xds_stats_get(context.get(), &now) != 0) return XDS_PATH_NONE;
    std::pair<uint64_t, uint32_t> ways[] = {{now.direct_bytes - before.direct_bytes, XDS_PATH_DIRECT},
                                            {now.staged_bytes - before.staged_bytes, XDS_PATH_STAGED},
                                            {now.tcp_bytes - before.tcp_bytes, XDS_PATH_TCP}};
    auto most = *std::max_element(std::begin(ways), std::end(ways));
    return most.first == 0 ? uint32_t{XDS_PATH_NONE} : most.second;
}

std::string small_name(unsigned thread, unsigned number) {
    return "xdsbench.small." + std::to_string(thread) + "." + std::to_string(number);
}
uint64_t small_size(const Arguments& arguments) { return std::min<uint64_t>(arguments.block, 64 << 10); }
unsigned small_count(const Arguments& arguments) { return arguments.depth * 32; }

// All threads' small files, before the clock runs.
Status make_small_files(const Arguments& arguments, const Context& context) {
    for (unsigned thread = 0; thread < arguments.threads; ++thread)
        for (unsigned i = 0; i < small_count(arguments); ++i)
            FABRIC_RETURN_IF_ERROR(make_file(context, small_name(thread, i), small_size(arguments)));
    return {};
}

Outcome read_batches(const Arguments& arguments, const Context& context, Memory& memory, unsigned thread,
                     Clock::time_point end) {
    Outcome outcome;
    uint64_t each = small_size(arguments);
    unsigned count = small_count(arguments);
    std::vector<std::string> names;
    std::vector<xds_many> files(count);
    for (unsigned i = 0; i < count; ++i) names.push_back(small_name(thread, i));
    for (unsigned i = 0; i < count; ++i) {
        files[i].size = sizeof(xds_many);
        files[i].path = names[i].c_str();
        files[i].buffer = memory.data() + i * each;
        files[i].length = each;
    }
    xds_stats before{};
    before.size = sizeof before;
    (void)xds_stats_get(context.get(), &before);
    do {
        int failed = xds_read_many(context.get(), files.data(), count);
        if (failed != 0)
            outcome.status = failed < 0 ? last_failure(failed, "batch") : Status(Code::io, EIO, "a file failed");
        for (const xds_many& file : files) outcome.bytes += file.got;
        outcome.requests += count;
    } while (outcome.status.ok() && Clock::now() < end);
    outcome.path = most_used_path(context, before);
    return outcome;
}

struct Report {
    std::string name, unit, path;
    double value = 0, per_second = 0, cpu = 0;
};

Outcome run_thread(const Arguments& arguments, const std::string& operation, bool sim, unsigned thread,
                   Clock::time_point end) {
    Outcome outcome;
    Result<Context> context = Context::open(arguments.address, arguments.agent, arguments.verify);
    if (!context.ok()) {
        outcome.status = context.status();
        return outcome;
    }
    uint64_t small = small_size(arguments) * 32;
    Memory memory(sim, arguments.depth * (operation == "many" ? small : arguments.block));
    if (operation == "many") return read_batches(arguments, *context, memory, thread, end);
    Result<File> file = File::open(*context, file_name(thread), O_RDWR, 0);
    if (!file.ok()) {
        outcome.status = file.status();
        return outcome;
    }
    return Transfers(arguments, *context, *file, memory, operation.ends_with("write"), operation.starts_with("rand"))
        .run(end);
}

Result<Report> measure(const Arguments& arguments, const std::string& operation, const std::string& kind) {
    static constexpr const char* paths[] = {"-", "direct", "staged", "tcp", "local"};
    std::vector<Outcome> outcomes(arguments.threads);
    std::vector<std::thread> threads;
    double cpu = cpu_seconds();
    auto start = Clock::now();
    auto end = start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(arguments.seconds));
    for (unsigned i = 0; i < arguments.threads; ++i)
        threads.emplace_back([&, i] { outcomes[i] = run_thread(arguments, operation, kind == "sim", i, end); });
    for (std::thread& thread : threads) thread.join();
    double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    cpu = cpu_seconds() - cpu;
    uint64_t bytes = 0, requests = 0;
    for (const Outcome& outcome : outcomes) {
        if (!outcome.status.ok()) return outcome.status;
        bytes += outcome.bytes;
        requests += outcome.requests;
    }
    Report report;
    report.name = "xds." + operation + "." + kind;
    report.path = paths[outcomes[0].path % 5];
    report.per_second = static_cast<double>(requests) / seconds;
    report.unit = operation == "many" ? "files/s" : "MB/s";
    report.value = operation == "many" ? report.per_second : static_cast<double>(bytes) / seconds / 1e6;
    report.cpu = bytes == 0 ? 0 : cpu / (static_cast<double>(bytes) / 1e9);
    return report;
}

Status write_json(const std::string& path, const std::vector<Report>& reports) {
    std::ofstream file(path);
    file << "[";
    for (size_t i = 0; i < reports.size(); ++i)
        file << (i == 0 ? "\n" : ",\n") << "  {\"name\": \"" << reports[i].name << "\", \"unit\": \"" << reports[i].unit
             << "\", \"better\": \"higher\", \"ours\": " << reports[i].value
             << ", \"peers\": {}, \"ratios\": {}, \"runs\": 1, \"path\": \"" << reports[i].path
             << "\", \"cpu_seconds_per_gb\": " << reports[i].cpu << "}";
    file << "\n]\n";
    file.flush();
    return file ? Status() : Status::from_errno(EIO, "report " + path);
}

Status bench(const Arguments& arguments) {
    Result<Context> context = Context::open(arguments.address, arguments.agent, false);
    if (!context.ok()) return context.status();
    for (unsigned i = 0; i < arguments.threads; ++i)
        FABRIC_RETURN_IF_ERROR(make_file(*context, file_name(i), std::max(arguments.size, arguments.block)));
    if (std::ranges::find(arguments.operations, "many") != arguments.operations.end())
        FABRIC_RETURN_IF_ERROR(make_small_files(arguments, *context));
    std::printf("%-22s %12s %-8s %12s %-8s %10s\n", "name", "value", "unit", "requests/s", "path", "cpu s/GB");
    std::vector<Report> reports;
    for (const std::string& kind : arguments.kinds)
        for (const std::string& operation : arguments.operations) {
            Result<Report> report = measure(arguments, operation, kind);
            if (!report.ok()) return report.status();
            std::printf("%-22s %12.1f %-8s %12.0f %-8s %10.3f\n", report->name.c_str(), report->value,
                        report->unit.c_str(), report->per_second, report->path.c_str(), report->cpu);
            std::fflush(stdout);
            reports.push_back(*report);
        }
    return arguments.json.empty() ? Status() : write_json(arguments.json, reports);
}

}  // namespace
}  // namespace fabric::xds::tools

int main(int argc, char** argv) {
    using namespace fabric::xds::tools;
    CLI::App app(
        "xdsbench measures an XDS target from this machine.\n"
        "It makes files xdsbench.N on the target and leaves them there.\n"
        "Exit status: 0, or 1 when a request failed, or 2 for wrong usage.");
    Arguments arguments;
    app.add_option("--op", arguments.operations, "write, read, randwrite, randread, many")
        ->delimiter(',')
        ->check(CLI::IsMember({"write", "read", "randwrite", "randread", "many"}))
        ->capture_default_str();
    app.add_option("--kind", arguments.kinds, "memory: host, sim")
        ->delimiter(',')
        ->check(CLI::IsMember({"host", "sim"}))
        ->capture_default_str();
    app.add_option("--size", arguments.size_text, "bytes of each thread's file")->capture_default_str();
    app.add_option("--block", arguments.block_text, "bytes of a request; for many of a file")->capture_default_str();
    app.add_option("--depth", arguments.depth, "requests in flight of each thread")
        ->check(CLI::Range(1, 1024))
        ->capture_default_str();
    app.add_option("--threads", arguments.threads, "threads")->check(CLI::Range(1, 256))->capture_default_str();
    app.add_option("--seconds", arguments.seconds, "duration of each measurement")
        ->check(CLI::Range(0.01, 86400.0))
        ->capture_default_str();
    app.add_flag("--verify", arguments.verify, "check CRC32C of what is read, where it lies");
    app.add_option("--json", arguments.json, "write the results to this file");
    app.add_option("--address", arguments.address, "target, HOST:PORT (default: XDS_ADDRESS)");
    app.add_option("--agent", arguments.agent, "the node's agent socket (default: XDS_AGENT)");
    app.set_version_flag("--version", xds_version());
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    std::optional<uint64_t> size = parse_size(arguments.size_text), block = parse_size(arguments.block_text);
    if (!size || !block || *block == 0 || *block > (1 << 30)) {
        std::fprintf(stderr, "xdsbench: --size and --block: expected sizes such as 256MiB, a block of 1GiB at most\n");
        return 2;
    }
    arguments.size = *size;
    arguments.block = *block;
    fabric::Status status = bench(arguments);
    if (status.ok()) return 0;
    std::fprintf(stderr, "xdsbench: %s\n", status.message().c_str());
    return 1;
}
