#include "burstbuffer/index/chunk_key.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/unit/burstbuffer/sample.h"

namespace fabric::index {
namespace {

ChunkKey random_key(std::mt19937_64& random) {
    ChunkKey key = sample_key(random(), static_cast<uint32_t>(random()));
    key.file = sample_file(random(), 8 + random() % 30);
    // Small and negative times too: files from before 1970 exist.
    key.version = {random() >> (random() % 64), static_cast<int64_t>(random()), static_cast<int64_t>(random()) % 100};
    return key;
}

TEST(ChunkKey, ComesBackFromItsBytes) {
    std::mt19937_64 random(1);
    for (int i = 0; i < 10000; ++i) {
        ChunkKey key = random_key(random);
        Result<ChunkKey> back = ChunkKey::decode(key.encode());
        ASSERT_TRUE(back.ok()) << back.status().message();
        ASSERT_EQ(*back, key);
    }
}

TEST(ChunkKey, BytesSortAsVersionsAndChunksDo) {
    std::mt19937_64 random(2);
    fs::FileId file = sample_file(7);
    for (int i = 0; i < 10000; ++i) {
        ChunkKey one = random_key(random), two = random_key(random);
        one.file = two.file = file;
        bool before = std::tie(one.version, one.number) < std::tie(two.version, two.number);
        ASSERT_EQ(one.encode() < two.encode(), before);
    }
}

TEST(ChunkKey, NoFilesKeyBeginsWithAnothersPrefix) {
    for (size_t size = 9; size <= fs::FileId::kernel_max; ++size) {
        ChunkKey longer = sample_key(1);
        longer.file = sample_file(1, size);
        EXPECT_FALSE(longer.encode().starts_with(key_prefix(sample_file(1, size - 1))));
    }
}

TEST(ChunkKey, AnythingElseIsRefused) {
    std::string bytes = sample_key(3, 9).encode();
    for (size_t length = 0; length < bytes.size(); ++length)
        EXPECT_FALSE(ChunkKey::decode(bytes.substr(0, length)).ok());
    EXPECT_FALSE(ChunkKey::decode(bytes + '\0').ok());
    std::mt19937 random(3);
    for (int i = 0; i < 100000; ++i) {
        std::string noise(random() % 100, '\0');
        for (char& byte : noise) byte = static_cast<char>(random());
        Result<ChunkKey> key = ChunkKey::decode(noise);
        ASSERT_TRUE(!key.ok() || key->encode() == noise);
    }
}

}  // namespace
}  // namespace fabric::index
