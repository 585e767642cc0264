#include "fsal_fabric/wire_handle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace fabric::fsal {
namespace {

using fs::FileId;

FileId some_id(size_t kernel_bytes, uint8_t fill) {
    fs::FilesystemUuid uuid;
    uuid.fill(static_cast<uint8_t>(fill + 1));
    return *FileId::make(uuid, 1, std::vector<uint8_t>(kernel_bytes, fill));
}

std::vector<uint8_t> wire(uint32_t tag, const FileId& id) {
    std::vector<uint8_t> bytes(WireHandle::max_bytes);
    bytes.resize(WireHandle::write(tag, id, bytes));
    return bytes;
}

TEST(WireHandle, ComesBackForEveryLength) {
    for (size_t length = 1; length <= FileId::kernel_max; ++length) {
        FileId id = some_id(length, static_cast<uint8_t>(length));
        std::vector<uint8_t> bytes = wire(0xdeadbeef, id);
        EXPECT_EQ(bytes.size(), WireHandle::prefix + id.bytes().size());
        Result<FileId> again = WireHandle::read(0xdeadbeef, bytes);
        ASSERT_TRUE(again.ok()) << length;
        EXPECT_EQ(*again, id);
    }
}

// The bytes are a promise to clients that hold handles over an upgrade.
TEST(WireHandle, HasThisVeryForm) {
    fs::FilesystemUuid uuid;
    for (size_t i = 0; i < uuid.size(); ++i) uuid[i] = static_cast<uint8_t>(0xa0 + i);
    std::vector<uint8_t> kernel{1, 2, 3, 4, 5, 6, 7, 8};
    std::vector<uint8_t> expected{1, 0x44, 0x33, 0x22, 0x11};
    expected.insert(expected.end(), uuid.begin(), uuid.end());
    expected.push_back(0x81);
    expected.insert(expected.end(), kernel.begin(), kernel.end());
    EXPECT_EQ(wire(0x11223344, *FileId::make(uuid, 0x81, kernel)), expected);
}

TEST(WireHandle, TheTagOfAnExportStaysTheSame) {
    EXPECT_EQ(WireHandle::export_tag(some_id(8, 7)), WireHandle::export_tag(some_id(8, 7)));
    EXPECT_NE(WireHandle::export_tag(some_id(8, 7)), WireHandle::export_tag(some_id(8, 8)));
}

TEST(WireHandle, AHandleOfAnotherExportIsStale) {
    std::vector<uint8_t> bytes = wire(1, some_id(8, 3));
    EXPECT_EQ(WireHandle::read(2, bytes).status().errno_value(), ESTALE);
    EXPECT_NE(WireHandle::read(2, bytes).status().code(), Code::invalid);
    EXPECT_TRUE(WireHandle::parse(bytes).ok());
}

TEST(WireHandle, EveryTruncationIsRefusedOrAnotherFile) {
    FileId id = some_id(12, 9);
    std::vector<uint8_t> bytes = wire(5, id);
    for (size_t length = 0; length < bytes.size(); ++length) {
        Result<FileId> read = WireHandle::read(5, std::span(bytes).first(length));
        EXPECT_EQ(read.ok(), length > WireHandle::prefix + FileId::prefix) << length;
        if (read.ok()) {
            EXPECT_FALSE(*read == id);
        }
    }
}

TEST(WireHandle, RandomBytesDoNoHarm) {
    std::mt19937 random(20);
    std::vector<uint8_t> bytes(128);
    size_t accepted = 0;
    for (int round = 0; round < 200'000; ++round) {
        size_t length = random() % bytes.size();
        std::ranges::generate(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length),
                              [&] { return static_cast<uint8_t>(random()); });
        if (round % 2 && length > 0) bytes[0] = WireHandle::format;
        if (WireHandle::parse(std::span(bytes).first(length)).ok()) {
            ++accepted;
            EXPECT_GT(length, WireHandle::prefix + FileId::prefix);
            EXPECT_LE(length, WireHandle::max_bytes);
        }
        EXPECT_FALSE(WireHandle::read(0x5a5a5a5a, std::span(bytes).first(length)).ok());
    }
    EXPECT_GT(accepted, 0U);
}

TEST(WireHandle, WritesNothingWhereThereIsNoRoom) {
    FileId id = some_id(8, 1);
    std::vector<uint8_t> bytes(WireHandle::prefix + id.bytes().size() - 1, 0x77);
    EXPECT_EQ(WireHandle::write(1, id, bytes), 0U);
    EXPECT_TRUE(std::ranges::all_of(bytes, [](uint8_t byte) { return byte == 0x77; }));
}

}  // namespace
}  // namespace fabric::fsal
