// Random operations on one file, each checked against a copy of the file in memory.
//
//   fsx FILE [--seed N] [--operations N] [--size BYTES] [--direct] [--no-allocate] [--second FILE]
//
// --second names the same file through another mount: every so often it is opened there and read in full, after an
// fsync here (close-to-open). The first difference stops the run with the operations that led to it; the same seed
// repeats them.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace {

struct Options {
    std::string file;
    std::string second;
    uint64_t seed = 1;
    uint64_t operations = 2000;
    size_t size = 4u << 20;  // largest file size, bytes
    bool direct = false;     // O_DIRECT, with offsets of every alignment (NFS allows that)
    bool allocate = true;    // allocate and punch holes: NFS v4.2 and local file systems
};

constexpr size_t buffer_alignment = 4096;
constexpr size_t log_length = 40;

[[noreturn]] void die(const std::string& what) {
    std::fprintf(stderr, "fsx: %s: %s\n", what.c_str(), std::strerror(errno));
    std::exit(2);
}

struct FreeDeleter {
    void operator()(void* memory) const { std::free(memory); }
};
using Buffer = std::unique_ptr<uint8_t, FreeDeleter>;

class Exerciser {
  public:
    explicit Exerciser(Options options)
        : options_(std::move(options)),
          random_(options_.seed),
          shadow_(options_.size),
          buffer_(static_cast<uint8_t*>(std::aligned_alloc(buffer_alignment, options_.size + buffer_alignment))) {
        open_file(O_CREAT | O_TRUNC);
    }
    ~Exerciser() { close(descriptor_); }
    Exerciser(const Exerciser&) = delete;
    Exerciser& operator=(const Exerciser&) = delete;

    int run() {
        for (operation_ = 0; operation_ < options_.operations; ++operation_) {
            log_[operation_ % log_length].clear();
            step();
        }
        note("final check", 0, size_);
        reopen();
        check_all(options_.file);
        std::printf("fsx: %llu operations on %s, seed %llu: every byte as expected\n",
                    static_cast<unsigned long long>(options_.operations), options_.file.c_str(),
                    static_cast<unsigned long long>(options_.seed));
        return 0;
    }

  private:
    uint64_t below(uint64_t limit) { return limit == 0 ? 0 : random_() % limit; }

    void open_file(int extra) {
        descriptor_ = open(options_.file.c_str(), O_RDWR | extra | (options_.direct ? O_DIRECT : 0), 0644);
        if (descriptor_ < 0) die("open " + options_.file);
    }

    void note(const char* what, uint64_t offset, uint64_t length) {
        log_[operation_ % log_length] = std::to_string(operation_) + " " + what + " offset " + std::to_string(offset) +
                                        " length " + std::to_string(length) + " size " + std::to_string(size_);
    }

    void step() {
        // Offsets near boundaries of pages, of the smallest and of the largest transfers more often than chance has it.
        static constexpr std::array<uint64_t, 6> boundaries{4096, 8192, 65536, 1u << 20, 512, 1};
        uint64_t offset = below(options_.size);
        if (below(2) == 0) {
            uint64_t unit = boundaries[below(boundaries.size())];
            offset = std::min<uint64_t>(offset / unit * unit + below(3) - (offset >= unit ? 1 : 0), options_.size - 1);
        }
        uint64_t largest = below(4) == 0 ? options_.size : 70000;
        uint64_t length = std::min<uint64_t>(1 + below(largest), options_.size - offset);
        switch (below(16)) {
            case 0:
            case 1:
            case 2:
            case 3:
                return write(offset, length);
            case 4:
            case 5:
            case 6:
            case 7:
                return read(offset, length);
            case 8:
                return truncate(below(options_.size + 1));
            case 9:
                return sync();
            case 10:
                return reopen();
            case 11:
                return map_read(offset, length);
            case 12:
                return map_write(offset, length);
            case 13:
                return allocate(offset, length);
            case 14:
                return punch(offset, length);
            default:
                return below(8) == 0 ? check_second() : write(size_, std::min<uint64_t>(length, options_.size - size_));
        }
    }

    void write(uint64_t offset, uint64_t length) {
        if (length == 0) return;
        note("write", offset, length);
        uint8_t* from = buffer_.get() + below(buffer_alignment);
        uint64_t word = random_();
        for (uint64_t i = 0; i < length; ++i)
            from[i] = static_cast<uint8_t>((word >> (i % 8 * 8)) + i / 8 + operation_);
        for (uint64_t done = 0; done < length;) {
            ssize_t count = pwrite(descriptor_, from + done, length - done, static_cast<off_t>(offset + done));
            if (count <= 0) fail("pwrite: " + std::string(std::strerror(errno)));
            done += static_cast<uint64_t>(count);
        }
        std::memcpy(shadow_.data() + offset, from, length);
        grow(offset + length);
    }

    // Bytes between the old end and a write behind it are zeros; the shadow is kept zero behind the end.
    void grow(uint64_t end) { size_ = std::max<uint64_t>(size_, end); }

    void read(uint64_t offset, uint64_t length) {
        note("read", offset, length);
        uint8_t* to = buffer_.get() + below(buffer_alignment);
        uint64_t expected = offset >= size_ ? 0 : std::min(length, size_ - offset);
        uint64_t done = 0;
        while (done < length) {
            ssize_t count = pread(descriptor_, to + done, length - done, static_cast<off_t>(offset + done));
            if (count < 0) fail("pread: " + std::string(std::strerror(errno)));
            if (count == 0) break;
            done += static_cast<uint64_t>(count);
        }
        if (done != expected) fail("read " + std::to_string(done) + " bytes, expected " + std::to_string(expected));
        compare(to, offset, expected);
    }

    void truncate(uint64_t size) {
        note("truncate", size, 0);
        if (ftruncate(descriptor_, static_cast<off_t>(size)) != 0)
            fail("ftruncate: " + std::string(std::strerror(errno)));
        if (size < size_)
            std::fill(shadow_.begin() + static_cast<ptrdiff_t>(size), shadow_.begin() + static_cast<ptrdiff_t>(size_),
                      0);
        size_ = size;
        check_size(descriptor_);
    }

    void sync() {
        note("fsync", 0, 0);
        if (fsync(descriptor_) != 0) fail("fsync: " + std::string(std::strerror(errno)));
        check_size(descriptor_);
    }

    void reopen() {
        note("reopen", 0, 0);
        if (close(descriptor_) != 0) fail("close: " + std::string(std::strerror(errno)));
        open_file(0);
        check_size(descriptor_);
    }

    // The NFS client keeps no coherence between a map and O_DIRECT on the same file (open(2), NOTES).
    void map_read(uint64_t offset, uint64_t length) {
        if (offset >= size_ || options_.direct) return;
        length = std::min(length, size_ - offset);
        note("map read", offset, length);
        uint64_t begin = offset / buffer_alignment * buffer_alignment;
        uint64_t span = offset + length - begin;
        void* view = mmap(nullptr, span, PROT_READ, MAP_SHARED, descriptor_, static_cast<off_t>(begin));
        if (view == MAP_FAILED) fail("mmap: " + std::string(std::strerror(errno)));
        compare(static_cast<uint8_t*>(view) + (offset - begin), offset, length);
        munmap(view, span);
    }

    void map_write(uint64_t offset, uint64_t length) {
        if (offset >= size_ || options_.direct) return;
        length = std::min(length, size_ - offset);
        note("map write", offset, length);
        uint64_t begin = offset / buffer_alignment * buffer_alignment;
        uint64_t span = offset + length - begin;
        void* view = mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, static_cast<off_t>(begin));
        if (view == MAP_FAILED) fail("mmap: " + std::string(std::strerror(errno)));
        uint8_t* to = static_cast<uint8_t*>(view) + (offset - begin);
        std::memset(to, static_cast<int>(1 + operation_ % 255), length);
        std::memset(shadow_.data() + offset, static_cast<int>(1 + operation_ % 255), length);
        if (msync(view, span, MS_SYNC) != 0) fail("msync: " + std::string(std::strerror(errno)));
        munmap(view, span);
    }

    void allocate(uint64_t offset, uint64_t length) {
        if (!options_.allocate) return;
        note("allocate", offset, length);
        if (fallocate(descriptor_, 0, static_cast<off_t>(offset), static_cast<off_t>(length)) != 0)
            fail("fallocate: " + std::string(std::strerror(errno)));
        grow(offset + length);
        check_size(descriptor_);
    }

    void punch(uint64_t offset, uint64_t length) {
        if (!options_.allocate) return;
        note("punch", offset, length);
        if (fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                      static_cast<off_t>(length)) != 0)
            fail("punch: " + std::string(std::strerror(errno)));
        std::memset(shadow_.data() + offset, 0, length);
        check_size(descriptor_);
    }

    void check_second() {
        if (options_.second.empty()) return;
        note("second mount", 0, size_);
        if (fsync(descriptor_) != 0) fail("fsync: " + std::string(std::strerror(errno)));
        reopen();
        check_all(options_.second);
    }

    void check_all(const std::string& path) {
        int other = open(path.c_str(), O_RDONLY);
        if (other < 0) fail("open " + path + ": " + std::strerror(errno));
        check_size(other);
        uint64_t done = 0;
        while (done < size_) {
            ssize_t count =
                pread(other, buffer_.get(), std::min<uint64_t>(size_ - done, 1u << 20), static_cast<off_t>(done));
            if (count <= 0) fail("pread of " + path + ": " + std::strerror(errno));
            compare(buffer_.get(), done, static_cast<uint64_t>(count));
            done += static_cast<uint64_t>(count);
        }
        close(other);
    }

    void check_size(int descriptor) {
        struct stat status {};
        if (fstat(descriptor, &status) != 0) fail("fstat: " + std::string(std::strerror(errno)));
        if (static_cast<uint64_t>(status.st_size) != size_)
            fail("size is " + std::to_string(status.st_size) + ", expected " + std::to_string(size_));
    }

    void compare(const uint8_t* got, uint64_t offset, uint64_t length) {
        if (std::memcmp(got, shadow_.data() + offset, length) == 0) return;
        uint64_t at = 0;
        while (got[at] == shadow_[offset + at]) ++at;
        uint64_t wrong = 0;
        for (uint64_t i = at; i < length; ++i) wrong += got[i] != shadow_[offset + i];
        fail("byte " + std::to_string(offset + at) + " is " + std::to_string(got[at]) + ", expected " +
             std::to_string(shadow_[offset + at]) + "; " + std::to_string(wrong) + " of " + std::to_string(length) +
             " bytes differ");
    }

    [[noreturn]] void fail(const std::string& what) {
        std::fprintf(stderr, "fsx: the last operations on %s:\n", options_.file.c_str());
        for (size_t i = 1; i <= log_length; ++i) {
            const std::string& line = log_[(operation_ + i) % log_length];
            if (!line.empty()) std::fprintf(stderr, "  %s\n", line.c_str());
        }
        std::fprintf(stderr, "fsx: %s (seed %llu, operation %llu): %s\n", options_.file.c_str(),
                     static_cast<unsigned long long>(options_.seed), static_cast<unsigned long long>(operation_),
                     what.c_str());
        std::exit(1);
    }

    Options options_;
    std::mt19937_64 random_;
    std::vector<uint8_t> shadow_;
    Buffer buffer_;
    int descriptor_ = -1;
    uint64_t size_ = 0;
    uint64_t operation_ = 0;
    std::array<std::string, log_length> log_;
};

Options parse(int count, char** words) {
    Options options;
    for (int i = 1; i < count; ++i) {
        std::string word = words[i];
        auto value = [&]() -> std::string {
            if (i + 1 == count) {
                std::fprintf(stderr, "fsx: %s needs a value\n", word.c_str());
                std::exit(2);
            }
            return words[++i];
        };
        if (word == "--seed")
            options.seed = std::stoull(value());
        else if (word == "--operations")
            options.operations = std::stoull(value());
        else if (word == "--size")
            options.size = std::stoull(value());
        else if (word == "--second")
            options.second = value();
        else if (word == "--direct")
            options.direct = true;
        else if (word == "--no-allocate")
            options.allocate = false;
        else
            options.file = word;
    }
    if (options.file.empty() || options.size < 2 * buffer_alignment) {
        std::fprintf(
            stderr,
            "usage: fsx FILE [--seed N] [--operations N] [--size BYTES] [--direct] [--no-allocate] [--second FILE]\n");
        std::exit(2);
    }
    return options;
}

}  // namespace

int main(int argc, char** argv) { return Exerciser(parse(argc, argv)).run(); }
