#include "burstbuffer/store/local_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <map>
#include <thread>

#include "burstbuffer/store/store_metrics.h"
#include "common/unique_fd.h"
#include "tests/unit/burstbuffer/store/store_fixture.h"

namespace fabric::store {
namespace {

using Outcome = Read::Outcome;

class LocalStoreTest : public testing::Test, protected StoreFixture {
  protected:
    void SetUp() override { open(); }

    void flip_byte(const ChunkKey& key, size_t at) {
        ChunkRecord record = store->find(key).value().value();
        char name[32];
        snprintf(name, sizeof(name), "segments/%08u.seg", record.place.segment);
        UniqueFd file(::open((folder / name).c_str(), O_RDWR | O_CLOEXEC));
        char byte = 0;
        ASSERT_EQ(pread(file.get(), &byte, 1, static_cast<off_t>(record.place.offset() + at)), 1);
        byte = static_cast<char>(byte ^ 0x40);
        ASSERT_EQ(pwrite(file.get(), &byte, 1, static_cast<off_t>(record.place.offset() + at)), 1);
        ASSERT_EQ(fsync(file.get()), 0);
    }
};

TEST_F(LocalStoreTest, AnyRangeIntoAnyMemoryIsExact) {
    std::mt19937 random(1);
    for (size_t length : {1UL, 4095UL, 4096UL, 65536UL, 65537UL, 200001UL, mib - 1, mib}) {
        std::string data = random_bytes(length, length);
        ASSERT_TRUE(put(sample_key(length), data).ok());
        for (int round = 0; round < 60; ++round) {
            size_t offset = random() % (length + 10), size = 1 + random() % mib, shift = 0;
            if (round % 3 != 0) offset = offset / 4096 * 4096;
            if (round % 3 == 1) size = (size + 4095) / 4096 * 4096;
            if (round % 4 == 3) shift = random() % 4096;
            Answer answer = read(sample_key(length), offset, size, shift);
            ASSERT_EQ(answer.outcome, Outcome::hit) << answer.status.message();
            ASSERT_TRUE(answer.bytes == data.substr(std::min(offset, length), size))
                << length << " bytes from " << offset << ", " << size;
        }
    }
}

TEST_F(LocalStoreTest, AlignedReadsAreNotCopied) {
    std::string data = random_bytes(mib, 5);
    Memory aligned(mib);
    memcpy(aligned.data(), data.data(), mib);
    int64_t before = metrics().bytes_copied.value();
    ASSERT_TRUE(put(sample_key(1), {aligned.data(), mib}).ok());
    EXPECT_TRUE(read(sample_key(1)).bytes == data);
    EXPECT_TRUE(read(sample_key(1), 65536, 131072).bytes == data.substr(65536, 131072));
    EXPECT_TRUE(read(sample_key(1), 4096, 4096).bytes == data.substr(4096, 4096))
        << "the rest of its unit is read beside";
    EXPECT_EQ(metrics().bytes_copied.value(), before);
}

TEST_F(LocalStoreTest, ManyEntriesAppearTogetherAndSurviveAReopen) {
    std::vector<std::string> contents;
    std::vector<LocalStore::Entry> entries;
    for (uint32_t i = 0; i < 300; ++i) contents.push_back(random_bytes(1 + i * 7 % 5000, i));
    for (uint32_t i = 0; i < 300; ++i) entries.push_back({sample_key(i), {contents[i].data(), contents[i].size()}});
    ASSERT_TRUE(store->put(entries, LocalStore::Kind::clean).ok());
    open();
    for (uint32_t i = 0; i < 300; ++i) ASSERT_TRUE(read(sample_key(i)).bytes == contents[i]) << i;
    EXPECT_EQ(read(sample_key(300)).outcome, Outcome::miss);
}

TEST_F(LocalStoreTest, VersionsDoNotMix) {
    ASSERT_TRUE(put(sample_key(1, 0, 10), "old").ok());
    ASSERT_TRUE(put(sample_key(1, 0, 11), "new!").ok());
    EXPECT_EQ(read(sample_key(1, 0, 10)).bytes, "old");
    EXPECT_EQ(read(sample_key(1, 0, 11)).bytes, "new!");
    ASSERT_TRUE(store->drop_file(sample_file(1)).ok());
    EXPECT_EQ(read(sample_key(1, 0, 10)).outcome, Outcome::miss);
    EXPECT_EQ(read(sample_key(1, 0, 11)).outcome, Outcome::miss);
}

// Random puts, drops and reads on a store of few segments: room is reused again and again, and every read is right.
TEST_F(LocalStoreTest, IsWhatAModelIsWhileItsRoomIsReused) {
    open(32 * mib);
    std::mt19937 random(9);
    std::map<uint32_t, std::string> model;
    for (int step = 0; step < 1500; ++step) {
        uint32_t number = random() % 16;
        if (random() % 3 == 0) {
            ASSERT_TRUE(store->drop(sample_key(number)).ok());
            model.erase(number);
        } else {
            std::string data = random_bytes(1 + random() % mib, static_cast<uint64_t>(step));
            Status status = put(sample_key(number), data);
            if (status.errno_value() == ENOSPC) {  // fragmented: nothing has changed
                for (uint32_t i = 0; i < 16; ++i) ASSERT_TRUE(store->drop(sample_key(i)).ok());
                model.clear();
            } else {
                ASSERT_TRUE(status.ok()) << status.message();
                model[number] = data;
            }
        }
        uint32_t asked = random() % 16;
        Answer answer = read(sample_key(asked));
        ASSERT_EQ(answer.outcome, model.contains(asked) ? Outcome::hit : Outcome::miss) << answer.status.message();
        ASSERT_TRUE(answer.bytes == model[asked]);
        if (answer.outcome == Outcome::miss) model.erase(asked);
    }
    EXPECT_LE(store->usage().allocated, 32 * mib);
    EXPECT_EQ(store->usage().records, model.size());
}

TEST_F(LocalStoreTest, ReadersOfReplacedChunksSeeOldOrNewBytesNeverOthers) {
    open(24 * mib);
    std::atomic<bool> stop{false};
    std::vector<std::thread> readers;
    // The first bytes name the chunk; the whole of it follows from them.
    auto content = [](uint32_t number, uint32_t round) {
        std::string data = random_bytes(100000, number * 1000003ULL + round);
        memcpy(data.data(), &number, 4), memcpy(data.data() + 4, &round, 4);
        return data;
    };
    std::atomic<int> hits{0};
    for (int t = 0; t < 2; ++t) {
        readers.emplace_back([&, t] {
            std::mt19937 random(static_cast<unsigned>(t));
            while (!stop) {
                uint32_t number = random() % 4;
                Answer answer = read(sample_key(number));
                if (answer.outcome == Outcome::miss) continue;
                ASSERT_EQ(answer.outcome, Outcome::hit) << answer.status.message();
                uint32_t said = 0, round = 0;
                memcpy(&said, answer.bytes.data(), 4), memcpy(&round, answer.bytes.data() + 4, 4);
                ASSERT_EQ(said, number);
                ASSERT_TRUE(answer.bytes == content(number, round));
                ++hits;
            }
        });
    }
    for (uint32_t round = 0; round < 600; ++round) {
        Status status = put(sample_key(round % 4), content(round % 4, round));
        ASSERT_TRUE(status.ok() || status.errno_value() == ENOSPC) << status.message();
    }
    stop = true;
    for (std::thread& reader : readers) reader.join();
    EXPECT_GT(hits, 0);
}

TEST_F(LocalStoreTest, OneFlippedByteIsAMissForCleanDataAndCounted) {
    for (size_t at : {0UL, 65535UL, 65536UL, 199999UL}) {
        ChunkKey key = sample_key(at);
        ASSERT_TRUE(put(key, random_bytes(200000, at)).ok());
        flip_byte(key, at);
        int64_t before = metrics().damaged.value();
        EXPECT_EQ(read(key).outcome, Outcome::damaged) << "byte " << at;
        EXPECT_EQ(metrics().damaged.value(), before + 1);
        EXPECT_EQ(read(key).outcome, Outcome::miss) << "the record is gone";
    }
}

TEST_F(LocalStoreTest, OnlyTheUnitsThatARangeTouchesHaveToBeRight) {
    std::string data = random_bytes(200000, 1);
    ASSERT_TRUE(put(sample_key(1), data).ok());
    flip_byte(sample_key(1), 150000);
    EXPECT_TRUE(read(sample_key(1), 0, 131072).bytes == data.substr(0, 131072));
    EXPECT_EQ(read(sample_key(1), 131071, 2).outcome, Outcome::damaged);
}

TEST_F(LocalStoreTest, DamagedDirtyDataIsAnErrorAndStays) {
    ASSERT_TRUE(put(sample_key(1), random_bytes(5000, 1), LocalStore::Kind::dirty).ok());
    flip_byte(sample_key(1), 4999);
    for (int i = 0; i < 2; ++i) {
        Answer answer = read(sample_key(1));
        EXPECT_EQ(answer.outcome, Outcome::failed);
        EXPECT_EQ(answer.status.errno_value(), EIO);
    }
}

TEST_F(LocalStoreTest, AFailingDiskIsAMissForCleanDataAndAnErrorForDirty) {
    ASSERT_TRUE(put(sample_key(1), "clean").ok());
    ASSERT_TRUE(put(sample_key(2), "dirty", LocalStore::Kind::dirty).ok());
    ASSERT_TRUE(fault::arm("backing.read=EIO*2").ok());
    EXPECT_EQ(read(sample_key(1)).outcome, Outcome::damaged);
    EXPECT_EQ(read(sample_key(2)).outcome, Outcome::failed);
    EXPECT_EQ(read(sample_key(2)).bytes, "dirty") << "the next try is right again";
}

TEST_F(LocalStoreTest, AFailedPutChangesNothing) {
    ASSERT_TRUE(put(sample_key(1), "before").ok());
    for (const char* fault : {"backing.write=EIO*1", "backing.write=ENOSPC*1", "backing.fsync=EIO*1",
                              "store.write=EIO*1", "store.publish=EIO*1"}) {
        ASSERT_TRUE(fault::arm(fault).ok());
        EXPECT_FALSE(put(sample_key(1), "after", LocalStore::Kind::dirty).ok()) << fault;
        ASSERT_TRUE(fault::arm("").ok());
        EXPECT_EQ(read(sample_key(1)).bytes, "before") << fault;
    }
    EXPECT_EQ(store->usage().records, 1U);
    EXPECT_TRUE(put(sample_key(1), "after").ok());
    EXPECT_EQ(read(sample_key(1)).bytes, "after");
}

TEST_F(LocalStoreTest, DirtyRecordsComeInTheOrderOfTheirAcknowledgement) {
    for (uint64_t i : {5, 3, 9, 1}) ASSERT_TRUE(put(sample_key(i), "x", LocalStore::Kind::dirty).ok());
    ASSERT_TRUE(put(sample_key(3), "again", LocalStore::Kind::dirty).ok());
    auto order = [&] {
        std::vector<ChunkKey> keys;
        EXPECT_TRUE(store->index()
                        .visit_dirty(0,
                                     [&](uint64_t, const ChunkKey& key) {
                                         keys.push_back(key);
                                         return true;
                                     })
                        .ok());
        return keys;
    };
    EXPECT_EQ(order(), (std::vector<ChunkKey>{sample_key(5), sample_key(9), sample_key(1), sample_key(3)}));
    uint64_t five = store->find(sample_key(5)).value()->dirty;
    EXPECT_TRUE(store->mark_clean(sample_key(5), five).value());
    EXPECT_FALSE(store->mark_clean(sample_key(5), five).value()) << "once";
    EXPECT_FALSE(store->mark_clean(sample_key(3), five).value()) << "written again meanwhile";
    open();
    EXPECT_EQ(order(), (std::vector<ChunkKey>{sample_key(9), sample_key(1), sample_key(3)}));
    EXPECT_EQ(store->usage().dirty_records, 3U);
    ASSERT_TRUE(put(sample_key(7), "later", LocalStore::Kind::dirty).ok());
    EXPECT_EQ(order().back(), sample_key(7)) << "sequences go on after a start";
}

TEST_F(LocalStoreTest, WrongUseIsRefused) {
    EXPECT_EQ(put(sample_key(1), "").code(), Code::invalid);
    EXPECT_EQ(put(sample_key(1), std::string(mib + 1, 'x')).code(), Code::invalid);
    EXPECT_TRUE(store->put({}, LocalStore::Kind::dirty).ok());
    EXPECT_TRUE(store->drop(sample_key(77)).ok());
    EXPECT_FALSE(store->mark_clean(sample_key(77), 1).value());
}

}  // namespace
}  // namespace fabric::store
