// Works on the file system that holds TEST_TMPDIR (or /tmp): it must have file handles, and the test must be run by
// root.
#include "common/fs/filesystem.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace fabric::fs {
namespace {

class FilesystemTest : public testing::Test {
  protected:
    void SetUp() override {
        const char* base = std::getenv("FABRIC_TEST_DIR");
        directory_ = std::string(base ? base : "/tmp") + "/filesystem_test.XXXXXX";
        ASSERT_NE(::mkdtemp(directory_.data()), nullptr) << std::strerror(errno);
        Result<FilesystemPtr> opened = Filesystem::open(open_directory(directory_), directory_);
        if (!opened.ok()) GTEST_SKIP() << opened.status().message();
        filesystem_ = *opened;
    }
    void TearDown() override { std::filesystem::remove_all(directory_); }

    static UniqueFd open_directory(const std::string& path) {
        return UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    }
    std::string path(const char* name) const { return directory_ + "/" + name; }
    FileId make_file(const char* name, const char* content) {
        UniqueFd fd(::open(path(name).c_str(), O_CREAT | O_RDWR, 0600));
        EXPECT_EQ(::write(fd.get(), content, std::strlen(content)), static_cast<ssize_t>(std::strlen(content)));
        return *filesystem_->identify(fd.get());
    }

    std::string directory_;
    FilesystemPtr filesystem_;
};

TEST_F(FilesystemTest, FindsAFileAgainByItsIdAfterARename) {
    FileId id = make_file("one", "content of one");
    make_file("two", "content of two");
    ASSERT_EQ(::rename(path("one").c_str(), path("moved").c_str()), 0);
    Result<UniqueFd> fd = filesystem_->open(id, O_RDONLY);
    ASSERT_TRUE(fd.ok());
    char text[32] = {};
    EXPECT_EQ(::read(fd->get(), text, sizeof text), 14);
    EXPECT_STREQ(text, "content of one");
}

TEST_F(FilesystemTest, AHardLinkHasTheSameIdAndASymbolicLinkItsOwn) {
    FileId id = make_file("file", "x");
    ASSERT_EQ(::link(path("file").c_str(), path("hard").c_str()), 0);
    ASSERT_EQ(::symlink("file", path("soft").c_str()), 0);
    UniqueFd hard(::open(path("hard").c_str(), O_PATH | O_NOFOLLOW));
    UniqueFd soft(::open(path("soft").c_str(), O_PATH | O_NOFOLLOW));
    EXPECT_EQ(*filesystem_->identify(hard.get()), id);
    Result<FileId> link_id = filesystem_->identify(soft.get());
    ASSERT_TRUE(link_id.ok());
    EXPECT_FALSE(*link_id == id);
    Result<UniqueFd> link = filesystem_->open(*link_id, O_PATH | O_NOFOLLOW);
    ASSERT_TRUE(link.ok());
    char target[16] = {};
    EXPECT_EQ(::readlinkat(link->get(), "", target, sizeof target), 4);
    EXPECT_STREQ(target, "file");
}

TEST_F(FilesystemTest, ANameHasTheIdOfWhatItStandsFor) {
    FileId id = make_file("file", "x");
    ASSERT_EQ(::symlink("file", path("soft").c_str()), 0);
    UniqueFd directory = open_directory(directory_);
    UniqueFd soft(::open(path("soft").c_str(), O_PATH | O_NOFOLLOW));
    EXPECT_EQ(*filesystem_->identify(directory.get(), "file"), id);
    EXPECT_EQ(*filesystem_->identify(directory.get(), "soft"), *filesystem_->identify(soft.get()));
    EXPECT_EQ(filesystem_->identify(directory.get(), "none").status().errno_value(), ENOENT);
}

TEST_F(FilesystemTest, ARemovedFileIsStale) {
    FileId id = make_file("file", "x");
    ASSERT_EQ(::unlink(path("file").c_str()), 0);
    EXPECT_EQ(filesystem_->open(id, O_PATH).status().errno_value(), ESTALE);
}

TEST_F(FilesystemTest, ForgedIdsAreRefusedAndDoNoHarm) {
    FileId id = make_file("file", "x");
    for (int byte = 0; byte < 256; ++byte) {
        for (size_t length : {size_t{1}, size_t{7}, id.kernel().size(), FileId::kernel_max}) {
            std::vector<uint8_t> kernel(length, static_cast<uint8_t>(byte));
            for (int type : {0, 1, 2, 0x81, 0xfe, 0xff}) {
                Result<UniqueFd> fd = filesystem_->open(*FileId::make(filesystem_->uuid(), type, kernel), O_PATH);
                EXPECT_TRUE(fd.ok() || fd.status().errno_value() == ESTALE) << fd.status().errno_value();
            }
        }
    }
}

TEST_F(FilesystemTest, AnotherOpeningGivesTheSameUuid) {
    Result<FilesystemPtr> again = Filesystem::open(open_directory(directory_), directory_);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ((*again)->uuid(), filesystem_->uuid());
    EXPECT_EQ((*again)->device(), filesystem_->device());
}

TEST_F(FilesystemTest, ProcCannotBeExportedAndTheMessageSaysWhich) {
    Result<FilesystemPtr> opened = Filesystem::open(open_directory("/proc"), "/proc");
    ASSERT_FALSE(opened.ok());
    EXPECT_THAT(opened.status().message(), testing::HasSubstr("/proc (proc)"));
    EXPECT_EQ(opened.status().code(), Code::config);
}

TEST_F(FilesystemTest, AFileSystemInMemoryCannotBeExported) {
    struct statfs status;
    if (::statfs("/dev/shm", &status) != 0 || status.f_type != TMPFS_MAGIC) GTEST_SKIP() << "/dev/shm is no tmpfs";
    Result<FilesystemPtr> opened = Filesystem::open(open_directory("/dev/shm"), "/dev/shm");
    ASSERT_FALSE(opened.ok());
    EXPECT_THAT(opened.status().message(), testing::HasSubstr("/dev/shm (tmpfs) is in memory"));
    EXPECT_EQ(opened.status().code(), Code::config);
}

TEST_F(FilesystemTest, KnowsTheLargestSizeOfAFile) {
    make_file("file", "x");
    uint64_t most = filesystem_->max_file_size();
    ASSERT_LE(most, uint64_t{INT64_MAX});
    EXPECT_EQ(::truncate(path("file").c_str(), static_cast<off_t>(most)), 0) << most;
    if (most < INT64_MAX) {
        EXPECT_NE(::truncate(path("file").c_str(), static_cast<off_t>(most + 1)), 0) << most;
        EXPECT_EQ(errno, EFBIG);
    }
}

TEST_F(FilesystemTest, TheTableKeepsOneOfEachAsLongAsItIsUsed) {
    FilesystemTable table;
    Result<FilesystemPtr> first = table.find_or_open(filesystem_->device(), open_directory(directory_), directory_);
    ASSERT_TRUE(first.ok());
    Result<FilesystemPtr> second = table.find_or_open(filesystem_->device(), open_directory("/"), "/");
    ASSERT_TRUE(second.ok());
    EXPECT_EQ(first->get(), second->get());
    EXPECT_EQ(table.find(filesystem_->uuid()).get(), first->get());
    *first = nullptr;
    *second = nullptr;
    EXPECT_EQ(table.find(filesystem_->uuid()), nullptr);
    EXPECT_EQ(table.find(filesystem_->device()), nullptr);
}

}  // namespace
}  // namespace fabric::fs
