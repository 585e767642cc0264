#include "burstbuffer/index/chunk_record.h"

#include <gtest/gtest.h>

#include <random>

namespace fabric::index {
namespace {

TEST(ChunkRecord, ComesBackFromItsBytes) {
    std::mt19937 random(1);
    auto number = [&] { return static_cast<uint32_t>(random()); };
    for (uint32_t length : {1U, 4095U, 4096U, 65536U, 65537U, uint32_t{ChunkKey::chunk_size}}) {
        ChunkRecord record{.place = {number(), number()}, .length = length, .dirty = number()};
        for (size_t i = 0; i < record.checksum_count(); ++i) record.checksums[i] = number();
        Result<ChunkRecord> back = ChunkRecord::decode(record.encode());
        ASSERT_TRUE(back.ok()) << back.status().message();
        EXPECT_EQ(*back, record);
        size_t ordinary = record.encode().size();
        record.lifetime = {true, number(), 0};
        EXPECT_EQ(*ChunkRecord::decode(record.encode()), record);
        EXPECT_EQ(record.encode().size(), ordinary + 5);
        record.lifetime = {false, 0, number() | 1};
        EXPECT_EQ(*ChunkRecord::decode(record.encode()), record);
    }
}

TEST(ChunkRecord, ALifetimeEnds) {
    EXPECT_FALSE(Lifetime{}.over(INT64_MAX));
    EXPECT_FALSE((Lifetime{.pinned = true, .expires = 100}.over(99)));
    EXPECT_TRUE((Lifetime{.pinned = true, .expires = 100}.over(100)));
}

TEST(ChunkRecord, AnythingElseIsRefused) {
    ChunkRecord record{.place = {}, .length = 100000};
    std::string bytes = record.encode();
    for (size_t length = 0; length < bytes.size(); ++length) {
        EXPECT_FALSE(ChunkRecord::decode(bytes.substr(0, length)).ok());
    }
    EXPECT_FALSE(ChunkRecord::decode(bytes + '\0').ok());
    record.length = 0;
    EXPECT_FALSE(ChunkRecord::decode(record.encode()).ok());
    record.length = ChunkKey::chunk_size + 1;
    std::string longer(4, '\0');
    bytes = ChunkRecord{.place = {}, .length = ChunkKey::chunk_size}.encode();
    bytes.replace(8, 4, std::string{'\0', '\x10', '\0', '\1'});
    EXPECT_FALSE(ChunkRecord::decode(bytes + longer).ok());
    std::mt19937 random(3);
    for (int i = 0; i < 100000; ++i) {
        std::string noise(random() % 100, '\0');
        for (char& byte : noise) byte = static_cast<char>(random() % 3);
        Result<ChunkRecord> made = ChunkRecord::decode(noise);
        ASSERT_TRUE(!made.ok() || *ChunkRecord::decode(made->encode()) == *made);
    }
}

TEST(Place, SortsAsNumbersDo) {
    EXPECT_LT((Place{1, 255}).encode(), (Place{1, 256}).encode());
    EXPECT_LT((Place{1, UINT32_MAX}).encode(), (Place{2, 0}).encode());
    EXPECT_FALSE(Place::decode("short").ok());
}

}  // namespace
}  // namespace fabric::index
