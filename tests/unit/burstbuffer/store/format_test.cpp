#include "burstbuffer/store/format.h"

#include <fstream>
#include <sstream>

#include "tests/unit/burstbuffer/folder.h"

namespace fabric::store {
namespace {

constexpr uint64_t segment_size = 1 << 20;

std::string content(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

TEST(Format, IsMadeOnceAndKept) {
    Folder folder;
    Result<Format> made = open_format(folder.path(), segment_size);
    ASSERT_TRUE(made.ok()) << made.status().message();
    Result<Format> again = open_format(folder.path(), 64 * segment_size);
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(again->uuid, made->uuid);
    EXPECT_EQ(again->segment_size, segment_size) << "an existing store keeps its segment size";
    EXPECT_EQ(content(folder / "FORMAT"), made->print());
}

TEST(Format, AnOlderStoreIsUpgradedForGood) {
    Folder folder;
    Format old{.version = 1, .uuid = std::string(36, 'a'), .segment_size = segment_size};
    std::ofstream(folder / "FORMAT") << old.print();
    Result<Format> opened = open_format(folder.path(), segment_size);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    EXPECT_EQ(opened->version, Format::current);
    EXPECT_EQ(opened->uuid, old.uuid);
    EXPECT_EQ(content(folder / "FORMAT"), opened->print());
}

TEST(Format, AFolderOfSomethingElseIsRefused) {
    Folder folder;
    std::ofstream(folder / "thesis.tex") << "x";
    Result<Format> made = open_format(folder.path(), segment_size);
    ASSERT_FALSE(made.ok());
    EXPECT_NE(made.status().message().find("thesis.tex"), std::string::npos) << made.status().message();
    EXPECT_FALSE(std::ifstream(folder / "FORMAT"));
}

TEST(Format, DamageIsToldWithItsLine) {
    std::string good = Format{.uuid = std::string(36, 'a'), .segment_size = segment_size}.print();
    ASSERT_TRUE(Format::parse(good, "F").ok());
    auto refused = [](const std::string& text) {
        Result<Format> parsed = Format::parse(text, "F");
        EXPECT_FALSE(parsed.ok()) << text;
        return parsed.ok() ? "" : parsed.status().message();
    };
    EXPECT_NE(refused(good + "owner=me\n").find("F:4"), std::string::npos);
    EXPECT_NE(refused("fabric store 9\n").find("format 9"), std::string::npos) << "a newer store";
    refused("");
    refused("fabric store\n");
    refused("fabric store 0\n");
    refused("fabric store 1\nuuid=short\nsegment_size=1048576\n");
    refused("fabric store 1\nuuid=" + std::string(36, 'a') + "\n");
    for (const char* size : {"0", "-1", "4097", "1048577", "99999999999999999999", "1 MiB"}) {
        refused("fabric store 1\nuuid=" + std::string(36, 'a') + "\nsegment_size=" + size + "\n");
    }
}

TEST(Format, OneOwner) {
    Folder folder;
    Result<UniqueFd> first = lock_folder(folder.path());
    ASSERT_TRUE(first.ok());
    Result<UniqueFd> second = lock_folder(folder.path());
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.status().errno_value(), EBUSY);
    EXPECT_NE(second.status().message().find(std::to_string(getpid())), std::string::npos) << second.status().message();
    first->reset();
    EXPECT_TRUE(lock_folder(folder.path()).ok());
}

}  // namespace
}  // namespace fabric::store
