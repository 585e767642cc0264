// Quotas against a model: what is counted is what is there, and never more than allowed.
#include "burstbuffer/cache/datasets.h"

#include <random>

#include "tests/unit/burstbuffer/cache/cache_fixture.h"

namespace fabric::cache {
namespace {

constexpr uint64_t quota = 40 * 4096;

// Of every four files two belong to the first dataset, one to the second.
std::optional<size_t> dataset_of(uint64_t file) {
    return file % 4 < 2 ? std::optional<size_t>(0) : file % 4 == 2 ? std::optional<size_t>(1) : std::nullopt;
}

class DatasetsTest : public testing::Test, protected CacheFixture {
  protected:
    DatasetsTest() : CacheFixture(2) {}
    void start_with(std::vector<Dataset> all) {
        close();
        datasets_ = std::make_unique<Datasets>(std::move(all), [](const fs::FileId& file) {
            uint64_t number = 0;
            memcpy(&number, file.kernel().data(), sizeof(number));
            return dataset_of(number);
        });
        cache_options.flights.datasets = datasets_.get();
        open_cache();
    }
    bool take(uint64_t file, size_t size, bool pinned = false) {
        Memory memory(mib);
        disks::Entry entry{{sample_file(file), version(size), 0}, {memory.data(), size}};
        return cache->take({&entry, 1}, {.pinned = pinned}) == 1;
    }
    // By what the index has.
    uint64_t there(size_t dataset) {
        uint64_t bytes = 0;
        for (const auto& disk : disks->all()) {
            Status status = disk->store().index().visit_chunks({}, [&](const auto& key, const auto& record) {
                uint64_t number = 0;
                memcpy(&number, key.file.kernel().data(), sizeof(number));
                if (dataset_of(number) == dataset) bytes += uint64_t{record.blocks()} * 4096;
                return true;
            });
            EXPECT_TRUE(status.ok());
        }
        return bytes;
    }
    ~DatasetsTest() override { close(); }

    std::unique_ptr<Datasets> datasets_;
};

TEST_F(DatasetsTest, NoMoreThanTheQuotaAndWhatIsCountedIsThere) {
    std::vector<Dataset> rules{{"/one", quota}, {"/two", 1000 * 4096}};
    start_with(rules);
    std::mt19937 random(1);
    std::map<uint64_t, uint64_t> model;  // bytes of each file of the first dataset
    for (int i = 0; i < 2000; ++i) {
        uint64_t file = random() % 200, size = 1 + random() % 20000, blocks = (size + 4095) / 4096 * 4096;
        bool first = dataset_of(file) == 0U;
        switch (random() % 8) {
            case 0:
                ASSERT_TRUE(cache->drop(sample_file(file)).ok());
                model.erase(file);
                break;
            case 1:
                ASSERT_TRUE(cache->set_lifetime(sample_file(file), {.pinned = random() % 2 == 0}).ok());
                break;
            case 2:
                if (i % 50 == 0) start_with(rules);
                break;
            default: {
                ASSERT_TRUE(cache->drop(sample_file(file)).ok());
                model.erase(file);
                uint64_t used = 0;
                for (const auto& [name, bytes] : model) used += bytes;
                ASSERT_EQ(take(file, size), !first || used + blocks <= quota) << i << ": " << used << " in use";
                if (first && used + blocks <= quota) model[file] = blocks;
            }
        }
        uint64_t used = 0;
        for (const auto& [name, bytes] : model) used += bytes;
        ASSERT_EQ(datasets_->used(*disks, 0), used) << i;
        if (i % 100 == 0) {
            ASSERT_EQ(there(0), used) << i;
            ASSERT_EQ(there(1), datasets_->used(*disks, 1)) << i;
        }
    }
    EXPECT_GT(model.size(), 0U);
}

TEST_F(DatasetsTest, WhatReadersBringCountsToo) {
    start_with({{"/one", quota}, {"/two", quota}});
    for (int round = 0; round < 2; ++round) {
        for (uint64_t file = 0; file < 400; ++file) ASSERT_TRUE(right(*start(file, 4000, 0, 4000)));
    }
    ASSERT_TRUE(eventually([&] { return cache->on_their_way() == 0; }));
    EXPECT_EQ(datasets_->used(*disks, 0), quota);
    EXPECT_EQ(datasets_->used(*disks, 1), quota);
    EXPECT_EQ(there(0), quota);
}

TEST_F(DatasetsTest, ALoweredQuotaIsOver) {
    start_with({{"/one", quota}, {"/two", quota}});
    for (uint64_t file = 0; file < 40; file += 4) ASSERT_TRUE(take(file, 4096));
    uint32_t name = datasets_->of(sample_file(0));
    EXPECT_FALSE(datasets_->over(*disks, name));
    start_with({{"/one", 5 * 4096}, {"/two", quota}});
    EXPECT_EQ(datasets_->used(*disks, 0), 10U * 4096);
    EXPECT_TRUE(datasets_->over(*disks, name));
    EXPECT_FALSE(take(400, 1));
    ASSERT_TRUE(cache->drop(sample_file(0)).ok());
    EXPECT_EQ(datasets_->used(*disks, 0), 9U * 4096);
}

}  // namespace
}  // namespace fabric::cache
