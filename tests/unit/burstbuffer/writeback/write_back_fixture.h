// Write-back with one disk, in front of files in a folder beside it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <latch>
#include <set>
#include <span>
#include <thread>

#include "burstbuffer/writeback/write_back.h"
#include "common/fault.h"
#include "tests/unit/burstbuffer/folder.h"

namespace fabric::writeback {

constexpr uint64_t mib = uint64_t{1} << 20;

class WriteBackFixture {
  public:
    // In `root`: disk/, backing/.
    explicit WriteBackFixture(const std::string& root) : root_(root) {
        for (const char* name : {"/disk", "/backing"}) std::filesystem::create_directories(root + name);
        auto started = io::Engine::start({.lanes = 2});
        EXPECT_TRUE(started.ok());
        engine_ = std::move(started).value();
        options.paths = {"/**"};
        options.at_end = Options::AtEnd::keep;
        options.first_retry = std::chrono::milliseconds(20);
        options.longest_retry = std::chrono::milliseconds(50);
    }
    ~WriteBackFixture() {
        EXPECT_TRUE(fault::arm("").ok());
        close();
        EXPECT_EQ(pool_.lent(), 0U);
    }
    // What the file system lacks for these tests; empty: nothing.
    std::string unfit() {
        UniqueFd fd(::open((root_ + "/backing").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        struct stat status {};
        if (fstat(fd.get(), &status) != 0) return "fstat";
        auto found = filesystems_.find_or_open(status.st_dev, std::move(fd), root_);
        if (!found.ok()) return found.status().message();
        filesystem = *found;
        return {};
    }
    void open() {
        close();
        ASSERT_EQ(unfit(), "");
        std::vector<disks::DiskOptions> disks(disk_count);
        for (size_t i = 0; i < disk_count; ++i) {
            disks[i].folder = root_ + (i == 0 ? "/disk" : "/disk" + std::to_string(i));
            std::filesystem::create_directories(disks[i].folder);
            disks[i].reserve = 0;
            disks[i].segment_size = 2 * mib;
            disks[i].capacity = capacity;
            disks[i].hung_after = hung_after;
        }
        auto opened = disks::Disks::open(disks, *engine_, pool_);
        ASSERT_TRUE(opened.ok()) << opened.status().message();
        disks_ = std::move(opened).value();
        auto started = WriteBack::start(
            *disks_, pool_, filesystems_, options, [] {}, read_so_far);
        ASSERT_TRUE(started.ok()) << started.status().message();
        all = std::move(started).value();
    }
    void close() {
        all.reset();
        disks_.reset();
    }

    struct Opened {
        UniqueFd fd;
        fs::FileId id;
    };
    Opened file(const std::string& name) const {
        UniqueFd fd(::open(path(name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
        EXPECT_TRUE(fd);
        fs::FileId id = filesystem->identify(fd.get()).value();
        return {std::move(fd), id};
    }
    std::string path(const std::string& name) const { return root_ + "/backing/" + name; }
    Result<size_t> write(const Opened& to, uint64_t offset, std::span<const char> bytes, size_t rule = 0) {
        iovec one{const_cast<char*>(bytes.data()), bytes.size()};
        return all->write({to.id, filesystem, to.fd.get()}, rule, offset, {&one, 1}, bytes.size());
    }
    // All of the file, as clients see it.
    std::string read(const Opened& from) {
        struct stat status {};
        EXPECT_EQ(fstat(from.fd.get(), &status), 0);
        std::string bytes(static_cast<size_t>(status.st_size), '?');
        Status read = all->read(from.id, from.fd.get(), 0, bytes.size(), bytes.data());
        EXPECT_TRUE(read.ok()) << read.message();
        return bytes;
    }
    int truncate(const Opened& file, uint64_t size) {
        int fd = file.fd.get();
        return all->truncate(file.id, size, [=] { return ::ftruncate(fd, static_cast<off_t>(size)) == 0 ? 0 : errno; });
    }
    static std::string at_backing(const Opened& from) {
        struct stat status {};
        EXPECT_EQ(fstat(from.fd.get(), &status), 0);
        std::string bytes(static_cast<size_t>(status.st_size), '?');
        EXPECT_EQ(pread(from.fd.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
        return bytes;
    }
    // 0 or an errno.
    int sync_through(const Opened& file) {
        if (went_through.erase(file.fd.get()) == 0) return 0;
        return ::fdatasync(file.fd.get()) == 0 ? 0 : errno;
    }
    bool drained() {
        WriteBack::Hurry hurry(*all);
        for (int i = 0; i < 600; ++i) {
            uint64_t bytes = 0;
            for (const auto& queue : all->queues()) bytes += queue.bytes;
            if (bytes == 0) return true;
            all->wait_for_progress(std::chrono::milliseconds(100));
        }
        return false;
    }

    std::set<int> went_through;  // descriptors of files that something was written through to
    Options options;
    std::function<uint64_t()> read_so_far;
    uint64_t capacity = 0;
    size_t disk_count = 1;
    unsigned hung_after = 10;  // seconds
    fs::FilesystemPtr filesystem;
    std::unique_ptr<WriteBack> all;

  private:
    const std::string root_;
    io::BufferPool pool_{{.limit = 64 * mib}};
    std::unique_ptr<io::Engine> engine_;
    fs::FilesystemTable filesystems_;
    std::unique_ptr<disks::Disks> disks_;
};

}  // namespace fabric::writeback
