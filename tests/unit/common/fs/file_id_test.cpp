#include "common/fs/file_id.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace fabric::fs {
namespace {

FilesystemUuid some_uuid() {
    FilesystemUuid uuid;
    for (size_t i = 0; i < uuid.size(); ++i) uuid[i] = static_cast<uint8_t>(i * 7 + 1);
    return uuid;
}

TEST(FileId, KeepsItsPartsForEveryLengthOfKernelHandle) {
    for (size_t length = 1; length <= FileId::kernel_max; ++length) {
        std::vector<uint8_t> kernel(length, static_cast<uint8_t>(length));
        Result<FileId> id = FileId::make(some_uuid(), 0x81, kernel);
        ASSERT_TRUE(id.ok()) << length;
        EXPECT_EQ(id->filesystem(), some_uuid());
        EXPECT_EQ(id->kernel_type(), 0x81);
        EXPECT_EQ(std::vector<uint8_t>(id->kernel().begin(), id->kernel().end()), kernel);
        Result<FileId> again = FileId::parse(id->bytes());
        ASSERT_TRUE(again.ok());
        EXPECT_EQ(*again, *id);
    }
}

TEST(FileId, RefusesWhatDoesNotFit) {
    std::vector<uint8_t> kernel(FileId::kernel_max + 1);
    EXPECT_EQ(FileId::make(some_uuid(), 1, kernel).status().errno_value(), EOVERFLOW);
    EXPECT_FALSE(FileId::make(some_uuid(), 1, {}).ok());
    EXPECT_FALSE(FileId::make(some_uuid(), 256, std::span(kernel).first(8)).ok());
    EXPECT_FALSE(FileId::make(some_uuid(), -1, std::span(kernel).first(8)).ok());
}

TEST(FileId, ParsesExactlyTheLengthsThatCanBe) {
    std::vector<uint8_t> bytes(200, 0x5a);
    for (size_t length = 0; length <= bytes.size(); ++length) {
        bool fits = length > FileId::prefix && length <= FileId::max_bytes;
        EXPECT_EQ(FileId::parse(std::span(bytes).first(length)).ok(), fits) << length;
    }
}

TEST(FileId, KnowsTheInodeOfTheKindsOfHandleThatHoldIt) {
    std::vector<uint8_t> kernel(12);
    uint64_t inode = 0x123456789a;
    std::memcpy(kernel.data(), &inode, sizeof inode);
    EXPECT_EQ(FileId::make(some_uuid(), 0x81, kernel)->inode(), inode);
    EXPECT_EQ(FileId::make(some_uuid(), 1, kernel)->inode(), inode & UINT32_MAX);
    EXPECT_EQ(FileId::make(some_uuid(), 0x4d, kernel)->inode(), 0u);
    EXPECT_EQ(FileId::make(some_uuid(), 0x81, std::span(kernel).first(7))->inode(), 0u);
}

TEST(FileId, DifferentBytesAreDifferentFiles) {
    std::mt19937 random(1);
    std::vector<uint8_t> kernel{1, 2, 3, 4, 5, 6, 7, 8};
    FileId id = *FileId::make(some_uuid(), 1, kernel);
    for (int round = 0; round < 1000; ++round) {
        std::vector<uint8_t> bytes(id.bytes().begin(), id.bytes().end());
        bytes[random() % bytes.size()] ^= static_cast<uint8_t>(1 + random() % 255);
        EXPECT_FALSE(*FileId::parse(bytes) == id);
    }
}

}  // namespace
}  // namespace fabric::fs
