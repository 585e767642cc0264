#include "burstbuffer/index/index.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "tests/unit/burstbuffer/folder.h"
#include "tests/unit/burstbuffer/sample.h"

namespace fabric::index {
namespace {

// An index beside a model of it.
class IndexTest : public testing::Test {
  protected:
    void SetUp() override { open(); }

    void open() {
        index.reset();
        Result<std::unique_ptr<Index>> opened = Index::open(folder / "index", {});
        ASSERT_TRUE(opened.ok()) << opened.status().message();
        index = std::move(opened).value();
    }

    // Records never overlap: each gets a place of its own behind the last one.
    ChunkRecord place_record(uint32_t length, bool dirty) {
        ChunkRecord record{.place = {next_block / 1000, next_block % 1000}, .length = length};
        if (dirty) record.dirty = ++sequence;
        next_block += record.blocks();
        return record;
    }

    void random_change(std::mt19937& random) {
        Index::Change change;
        std::map<std::string, bool> touched;
        for (unsigned n = 1 + random() % 8; n > 0; --n) {
            ChunkKey key = sample_key(random() % 20, random() % 4);
            if (!touched.emplace(key.encode(), true).second) continue;
            auto there = model.find(key.encode());
            if (there != model.end()) {
                change.remove(key, there->second);
                model.erase(there);
            }
            if (random() % 3 == 0) continue;
            ChunkRecord record = place_record(1 + random() % 9000, random() % 2 == 0);
            change.put(key, record);
            model.emplace(key.encode(), record);
        }
        ASSERT_TRUE(index->apply(change, random() % 16 == 0).ok());
    }

    void expect_model() {
        std::map<std::string, ChunkRecord> found;
        std::map<uint32_t, SegmentUse> use;
        std::map<Place, std::string> places;
        std::map<uint64_t, std::string> dirty;
        Index::Damaged none = [](std::string_view family, std::string_view, const Status& why) {
            ADD_FAILURE() << family << ": " << why.message();
        };
        auto take = [&](const ChunkKey& key, const ChunkRecord& record) {
            found.emplace(key.encode(), record);
            use[record.place.segment] += {record.blocks() * 4096, 1, record.dirty != 0};
            places.emplace(record.place, key.encode());
            if (record.dirty != 0) dirty.emplace(record.dirty, key.encode());
            return true;
        };
        ASSERT_TRUE(index->visit_chunks({}, take, none).ok());
        EXPECT_EQ(found, model);
        auto at = places.begin();
        ASSERT_TRUE(index
                        ->visit_residents(
                            {},
                            [&](const Index::Resident& resident) {
                                EXPECT_NE(at, places.end());
                                EXPECT_EQ(resident.place, at->first);
                                EXPECT_EQ(resident.key.encode(), at->second);
                                EXPECT_EQ(resident.blocks, found[at->second].blocks());
                                ++at;
                                return true;
                            },
                            none)
                        .ok());
        EXPECT_EQ(at, places.end());
        auto next = dirty.begin();
        ASSERT_TRUE(index
                        ->visit_dirty(
                            0,
                            [&](uint64_t number, const ChunkKey& key) {
                                EXPECT_NE(next, dirty.end());
                                EXPECT_EQ(number, next->first);
                                EXPECT_EQ(key.encode(), next->second);
                                ++next;
                                return true;
                            },
                            none)
                        .ok());
        EXPECT_EQ(next, dirty.end());
        EXPECT_EQ(index->last_dirty().value(), dirty.empty() ? 0 : dirty.rbegin()->first);
        std::map<uint32_t, SegmentUse> counted = index->segments().value();
        std::erase_if(counted, [](const auto& entry) { return entry.second == SegmentUse{}; });
        EXPECT_EQ(counted, use);
    }

    Folder folder;
    std::unique_ptr<Index> index;
    std::map<std::string, ChunkRecord> model;
    uint32_t next_block = 0;
    uint64_t sequence = 0;
};

TEST_F(IndexTest, IsWhatAModelIsAlsoAfterItWasOpenedAnew) {
    std::mt19937 random(1);
    for (int round = 0; round < 4; ++round) {
        for (int i = 0; i < 300; ++i) random_change(random);
        expect_model();
        open();
        expect_model();
    }
}

TEST_F(IndexTest, FindsWhatIsThereAndNothingElse) {
    ChunkKey key = sample_key(1, 2);
    EXPECT_FALSE(index->find(key).value().has_value());
    ChunkRecord record = place_record(70000, true);
    record.checksums = {1, 2};
    Index::Change change;
    change.put(key, record);
    ASSERT_TRUE(index->apply(change, true).ok());
    EXPECT_EQ(index->find(key).value(), record);
    EXPECT_FALSE(index->find(sample_key(1, 3)).value().has_value());
    EXPECT_FALSE(index->find(sample_key(1, 2, 99)).value().has_value()) << "another version of the file";
}

TEST_F(IndexTest, TheEndOfASegmentIsBehindItsLastRecord) {
    EXPECT_EQ(index->end_of(5).value(), 0U);
    Index::Change change;
    change.put(sample_key(1), {.place = {5, 10}, .length = 4097});
    change.put(sample_key(2), {.place = {6, 3}, .length = 1});
    ASSERT_TRUE(index->apply(change, false).ok());
    EXPECT_EQ(index->end_of(4).value(), 0U);
    EXPECT_EQ(index->end_of(5).value(), 12U);
    EXPECT_EQ(index->end_of(6).value(), 4U);
    EXPECT_EQ(index->end_of(7).value(), 0U);
}

TEST_F(IndexTest, VisitsOneFileOrOneVersion) {
    Index::Change change;
    for (uint32_t i = 0; i < 5; ++i) change.put(sample_key(1, i, 10), {.place = {0, i}, .length = 1});
    for (uint32_t i = 0; i < 3; ++i) change.put(sample_key(1, i, 11), {.place = {1, i}, .length = 1});
    change.put(sample_key(2), {.place = {2, 0}, .length = 1});
    ASSERT_TRUE(index->apply(change, false).ok());
    auto count = [&](const std::string& prefix) {
        int seen = 0;
        EXPECT_TRUE(index->visit_chunks(prefix, [&](const ChunkKey&, const ChunkRecord&) { return ++seen > 0; }).ok());
        return seen;
    };
    EXPECT_EQ(count(key_prefix(sample_file(1))), 8);
    EXPECT_EQ(count(key_prefix(sample_file(1), sample_key(1, 0, 10).version)), 5);
    EXPECT_EQ(count({}), 9);
}

TEST_F(IndexTest, WhatIsDerivedIsMadeAnew) {
    std::mt19937 random(4);
    for (int i = 0; i < 100; ++i) random_change(random);
    ASSERT_TRUE(index->erase_raw("residents", model.begin()->second.place.encode()).ok());
    ASSERT_TRUE(index->derive_again().ok());
    expect_model();
    EXPECT_FALSE(index->erase_raw("no such family", "key").ok());
}

TEST_F(IndexTest, OneOwnerOnly) { EXPECT_FALSE(Index::open(folder / "index", {}).ok()); }

}  // namespace
}  // namespace fabric::index
