#include "burstbuffer/disks/disks.h"

#include <map>

#include "burstbuffer/disks/disks_metrics.h"
#include "tests/unit/burstbuffer/disks/disks_fixture.h"

namespace fabric::disks {
namespace {

constexpr uint32_t keys = 120;

std::string content(uint32_t number) { return random_bytes(1 + number * 37 % 9000, number); }

class DisksTest : public testing::Test, protected DisksFixture {
  protected:
    void fill() {
        for (uint32_t i = 0; i < keys; ++i) ASSERT_TRUE(put(sample_key(i), content(i)));
    }
    // How many chunks are there; each of these has the right bytes.
    uint32_t right() {
        uint32_t there = 0;
        for (uint32_t i = 0; i < keys; ++i) {
            std::optional<std::string> bytes = read(sample_key(i));
            if (!bytes) continue;
            EXPECT_TRUE(*bytes == content(i)) << i;
            ++there;
        }
        return there;
    }
    uint64_t records(size_t disk) { return disks->all()[disk]->store().usage().records; }
    uint32_t key_on(size_t disk) {
        for (uint32_t i = 0; i < keys; ++i) {
            if (disks->find(sample_key(i))->disk == disks->all()[disk].get()) return i;
        }
        ADD_FAILURE() << "disk " << disk << " has nothing";
        return 0;
    }
    // Writes chunks until the disk, whose writes fail, is set aside.
    void wear_out(size_t disk) {
        Disk& worn = *disks->all()[disk];
        for (int i = 0; i < 100 && worn.usable(); ++i) put(sample_key(1000 + static_cast<uint64_t>(i)), "x");
        ASSERT_FALSE(worn.usable());
    }
};

TEST_F(DisksTest, ChunksSpreadByWeightAndAreFoundAgain) {
    options[2].weight = 4;
    open();
    fill();
    EXPECT_EQ(right(), keys);
    EXPECT_EQ(records(0) + records(1) + records(2), keys);
    EXPECT_GT(records(0), 0U);
    EXPECT_GT(records(2), records(0) + records(1));
    open();
    EXPECT_EQ(right(), keys);
}

// A read of a disk that hangs, with memory that may be left to it.
struct LeftRead : Read {
    explicit LeftRead(const ChunkKey& chunk) {
        key = chunk;
        size = mib;
        to = memory.data();
        released = this;
        finished = [](Read& read) { static_cast<LeftRead&>(read).done.count_down(); };
    }
    Memory memory{mib};
    std::latch done{1};
    std::atomic<int> releases{0};
};

TEST_F(DisksTest, WhoWaitsForADiskThatHangsGoesOnWithoutIt) {
    for (DiskOptions& one : options) {
        one.hung_after = 1;
        one.health.rests = 1000;
    }
    open();
    fill();
    Disk& reads = *disks->all()[0];
    Disk& writes = *disks->all()[1];
    std::string large = random_bytes(mib, 1);
    uint64_t number = 1000;
    while (disks->home(sample_key(number)) != 0) ++number;
    ASSERT_TRUE(put(sample_key(number), large));
    uint64_t other = 2000;
    while (disks->home(sample_key(other)) != 1) ++other;
    ASSERT_TRUE(fault::arm("store.read.d0=hang:5000*2 store.write.d1=hang:5000*1").ok());
    LeftRead direct(sample_key(number));
    direct.release = [](void* read) { ++static_cast<LeftRead*>(read)->releases; };
    ASSERT_TRUE(disks->start(direct));
    std::jthread copied([&] { EXPECT_EQ(read(sample_key(key_on(0))), std::nullopt); });
    std::jthread put_goes_elsewhere([&] {
        EXPECT_TRUE(put_dirty(sample_key(other), large).ok());
        EXPECT_NE(disks->find(sample_key(other))->disk, &writes);
    });
    direct.done.wait();
    EXPECT_TRUE(reads.store().hung()) << "the disk has not answered yet";
    EXPECT_EQ(direct.outcome, Read::Outcome::failed);
    EXPECT_EQ(direct.status.errno_value(), EIO);
    EXPECT_NE(direct.status.message().find(reads.folder()), std::string::npos) << direct.status.message();
    EXPECT_TRUE(direct.memory_left);
    EXPECT_EQ(direct.releases, 0);
    copied.join();
    put_goes_elsewhere.join();
    EXPECT_FALSE(reads.usable());
    EXPECT_FALSE(writes.usable());
    EXPECT_TRUE(writes.store().hung());
    EXPECT_GT(pool.lent(), 0U) << "the disk still has the buffer of the read that is copied";
    EXPECT_EQ(read(sample_key(number)), std::nullopt) << "nobody else waits for it";
    ASSERT_TRUE(eventually([&] { return direct.releases == 1; }));
    ASSERT_TRUE(eventually([&] { return reads.usable() && writes.usable(); }));
    EXPECT_EQ(pool.lent(), 0U);
    EXPECT_EQ(read(sample_key(number)), large);
    EXPECT_EQ(read(sample_key(other)), large);
    EXPECT_EQ(right(), keys) << "what was left is where it was";
}

TEST_F(DisksTest, NothingIsLostToReadersWhenWeightsAndDisksChange) {
    open();
    fill();
    options[0].weight = 10;
    std::swap(options[0], options[1]);
    add(5);
    open();
    EXPECT_EQ(right(), keys);
}

TEST_F(DisksTest, AnEntryThatIsPutTogetherWithOthersGoesToItsOwnDisk) {
    open();
    std::vector<std::string> contents;
    std::vector<Entry> entries;
    for (uint32_t i = 0; i < keys; ++i) contents.push_back(content(i));
    for (uint32_t i = 0; i < keys; ++i) entries.push_back({sample_key(i), {contents[i].data(), contents[i].size()}});
    EXPECT_EQ(disks->put_clean(entries), keys);
    EXPECT_EQ(right(), keys);
    EXPECT_GT(records(0), 10U);
    EXPECT_GT(records(1), 10U);
}

TEST_F(DisksTest, AFailingDiskIsSetAsideAndTakenBack) {
    options[1].health.rests = 1'000'000;
    open();
    fill();
    ASSERT_TRUE(fault::arm("store.write.d1=EIO disk.probe.d1=EIO").ok());
    uint64_t before = records(1);
    wear_out(1);
    EXPECT_EQ(right(), keys - before) << "its chunks are misses, the others are there";
    ASSERT_TRUE(eventually([] { return fault::struck("disk.probe.d1") > 1; }));
    EXPECT_FALSE(disks->all()[1]->usable()) << "its probes failed";
    int64_t returns = metrics().returns.value();
    ASSERT_TRUE(fault::arm("").ok());
    ASSERT_TRUE(eventually([&] { return metrics().returns.value() == returns + 1; }));
    EXPECT_TRUE(disks->all()[1]->usable());
    EXPECT_EQ(right(), keys);
}

TEST_F(DisksTest, ADiskThatStaysBadIsRetired) {
    open();
    fill();
    uint64_t before = records(0);
    uint32_t lost = key_on(0);
    ASSERT_TRUE(fault::arm("store.write.d0=EIO disk.probe=EIO").ok());
    wear_out(0);
    ASSERT_TRUE(eventually([&] { return disks->all()[0]->state() == Health::State::retired; }));
    ASSERT_TRUE(fault::arm("").ok());
    EXPECT_FALSE(put(sample_key(lost), content(lost))) << "no admission, and no error";
    EXPECT_EQ(right(), keys - before);
    open();
    EXPECT_EQ(right(), keys) << "another start, another try";
}

TEST_F(DisksTest, AReadThatFailsIsAMissAndTheNextOneFindsTheDiskAtWorkOrNot) {
    open();
    fill();
    uint32_t one = key_on(2);
    ASSERT_TRUE(fault::arm("store.read.d2=EIO*1").ok());
    EXPECT_FALSE(read(sample_key(one)));
    EXPECT_EQ(right(), keys - 1) << "the record that could not be read is dropped";
}

TEST_F(DisksTest, DirtyRecordsGoToAnotherDiskWhenTheirsFailsAndStayReadable) {
    open();
    ASSERT_TRUE(put_dirty(sample_key(7), "first").ok());
    Disk* own = disks->find(sample_key(7))->disk;
    std::string name = std::filesystem::path(own->folder()).filename();
    ASSERT_TRUE(fault::arm("store.write." + name + "=EIO disk.probe=EIO").ok());
    for (uint32_t i = 100; own->usable(); ++i) ASSERT_TRUE(put_dirty(sample_key(7, i), "second").ok());
    EXPECT_EQ(read(sample_key(7)), "first") << "nobody else has it";
    ASSERT_TRUE(put_dirty(sample_key(7, 2), "third").ok());
    EXPECT_NE(disks->find(sample_key(7, 2))->disk, own);
    EXPECT_EQ(read(sample_key(7, 2)), "third");
    ASSERT_TRUE(fault::arm("store.write=EIO").ok());
    Status none = put_dirty(sample_key(7, 3), "fourth");
    EXPECT_EQ(none.code(), Code::unavailable);
}

TEST_F(DisksTest, FullIsNoAdmissionAndNoErrorToReaders) {
    for (DiskOptions& one : options) one.capacity = 8 * mib;
    open();
    std::map<uint32_t, std::string> model;
    uint32_t refused = 0;
    for (uint32_t i = 0; i < 60; ++i) {
        std::string data = random_bytes(mib, i);
        if (put(sample_key(i), data)) {
            model[i] = data;
        } else {
            ++refused;
        }
    }
    EXPECT_GE(refused, 36U);
    EXPECT_GE(model.size(), 20U);
    for (uint32_t i = 0; i < 60; ++i) {
        std::optional<std::string> bytes = read(sample_key(i));
        ASSERT_EQ(bytes.has_value(), model.contains(i)) << i;
        ASSERT_TRUE(!bytes || *bytes == model[i]);
    }
    for (const auto& disk : disks->all()) EXPECT_TRUE(disk->usable()) << "full is not broken";
    Status status = put_dirty(sample_key(100), random_bytes(mib, 1));
    EXPECT_EQ(status.code(), Code::unavailable) << status.message();
}

TEST_F(DisksTest, ADiskThatIsGoneAtTheStartIsLeftOut) {
    open();
    fill();
    uint64_t before = records(1);
    disks.reset();
    std::filesystem::rename(options[1].folder, options[1].folder + ".away");
    open();
    EXPECT_EQ(disks->all().size(), 2U);
    EXPECT_EQ(right(), keys - before);
    disks.reset();
    for (const DiskOptions& one : options) std::filesystem::remove_all(one.folder);
    EXPECT_EQ(try_open().errno_value(), ENOENT) << "none is left";
}

TEST_F(DisksTest, AFolderThatIsInUseOrNoStoresIsAnError) {
    open();
    auto again = Disks::open(options, *engine, pool);
    EXPECT_EQ(again.status().errno_value(), EBUSY);
    EXPECT_EQ(Disks::open({}, *engine, pool).status().code(), Code::config);
}

}  // namespace
}  // namespace fabric::disks
