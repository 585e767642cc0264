// PROGRAM [--seconds N] [--seed N] [--save FOLDER] [FILE|FOLDER...]: runs the inputs of the corpus, then changed ones
// until the time is over. Where the code under test is built to tell which parts of it run (FABRIC_FUZZ_COVERAGE),
// inputs that reach something new are kept and changed further, and saved. The input at work lies in ./fuzz.input when
// it all stops.
#include "tests/xds/fuzz/driver.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <vector>

namespace {

constexpr size_t places = 1 << 16, longest = 2048, most_kept = 4000;
std::array<std::atomic<uint8_t>, places> reached;

using Input = std::vector<uint8_t>;

struct Options {
    double seconds = 5;
    uint64_t seed = 1;
    std::string save;
    std::vector<std::string> corpus;
};

Options parse(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; ++i) {
        std::string word = argv[i];
        auto value = [&]() -> std::string { return i + 1 < argc ? argv[++i] : ""; };
        if (word == "--seconds")
            options.seconds = std::strtod(value().c_str(), nullptr);
        else if (word == "--seed")
            options.seed = std::strtoull(value().c_str(), nullptr, 10);
        else if (word == "--save")
            options.save = value();
        else
            options.corpus.push_back(word);
    }
    return options;
}

Input read(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<Input> load(const Options& options) {
    std::vector<Input> inputs;
    for (const std::string& name : options.corpus) {
        if (!std::filesystem::is_directory(name)) {
            inputs.push_back(read(name));
            continue;
        }
        std::vector<std::filesystem::path> files;
        for (const auto& entry : std::filesystem::directory_iterator(name)) files.push_back(entry.path());
        std::sort(files.begin(), files.end());
        for (const auto& file : files) inputs.push_back(read(file));
    }
    return inputs;
}

void write(const std::string& path, const Input& input) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(input.data()), static_cast<std::streamsize>(input.size()));
}

Input change(const std::vector<Input>& all, std::mt19937_64& random) {
    auto below = [&](size_t bound) { return static_cast<size_t>(random() % std::max<size_t>(bound, 1)); };
    Input input = all.empty() ? Input() : all[below(all.size())];
    for (size_t steps = 1 + below(6); steps > 0; --steps) {
        size_t at = below(input.size() + 1);
        auto here = input.begin() + static_cast<ptrdiff_t>(at);
        switch (below(6)) {
            case 0:
                if (at < input.size()) input[at] = static_cast<uint8_t>(random());
                break;
            case 1:
                if (at < input.size()) input[at] = static_cast<uint8_t>(input[at] ^ 1U << below(8));
                break;
            case 2:
                input.insert(here, static_cast<uint8_t>(random()));
                break;
            case 3:
                input.erase(here, here + static_cast<ptrdiff_t>(below(std::min<size_t>(input.size() - at, 16))));
                break;
            case 4: {  // a piece of another one
                if (all.empty()) break;
                const Input& other = all[below(all.size())];
                size_t from = below(other.size()), length = below(std::min<size_t>(other.size() - from, 64) + 1);
                input.insert(here, other.begin() + static_cast<ptrdiff_t>(from),
                             other.begin() + static_cast<ptrdiff_t>(from + length));
                break;
            }
            default:
                for (size_t i = below(24); i > 0; --i) input.push_back(static_cast<uint8_t>(random()));
        }
    }
    if (input.size() > longest) input.resize(longest);
    return input;
}

size_t count_reached() {
    return static_cast<size_t>(std::count_if(reached.begin(), reached.end(), [](const auto& one) { return one != 0; }));
}

// True: it reached something new.
bool run(const Input& input) {
    size_t before = count_reached();
    write("fuzz.input", input);
    (void)LLVMFuzzerTestOneInput(input.data(), input.size());
    return count_reached() > before;
}

}  // namespace

// Called by code that is built with -fsanitize-coverage=trace-pc.
extern "C" __attribute__((no_sanitize_coverage)) void __sanitizer_cov_trace_pc() {
    auto at = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
    reached[(at ^ at >> 16) % places].store(1, std::memory_order_relaxed);
}

int main(int argc, char** argv) {
    Options options = parse(argc, argv);
    std::vector<Input> all = load(options);
    auto begin = std::chrono::steady_clock::now();
    for (const Input& input : all) (void)run(input);
    std::mt19937_64 random(options.seed);
    size_t runs = all.size(), kept = 0;
    while (std::chrono::steady_clock::now() - begin < std::chrono::duration<double>(options.seconds)) {
        Input input = change(all, random);
        ++runs;
        if (!run(input) || all.size() >= most_kept) continue;
        ++kept;
        if (!options.save.empty()) write(options.save + "/" + std::to_string(runs), input);
        all.push_back(std::move(input));
    }
    std::filesystem::remove("fuzz.input");
    std::printf("%zu inputs, %zu kept, %zu places reached\n", runs, kept, count_reached());
    return 0;
}
