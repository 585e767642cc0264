#include "xds/memory/registration_cache.h"

#include <gtest/gtest.h>

#include <set>

#include "xds/memory/host.h"
#include "xds/memory/sim.h"

namespace fabric::xds::memory {
namespace {

class Counting : public Registrar {
  public:
    Result<uint64_t> add(const Place&, uintptr_t, size_t length, Access, Term) override {
        if (fail) return Status::from_errno(ENOMEM, "registration");
        bytes += length;
        live.insert(++last);
        return last;
    }
    void remove(uint64_t key) override { EXPECT_EQ(live.erase(key), 1u) << "removed twice"; }

    std::set<uint64_t> live;
    uint64_t last = 0;
    size_t bytes = 0;
    bool fail = false;
};

struct Cache : testing::Test {
    void TearDown() override {
        for (void* memory : allocated) EXPECT_TRUE(sim_free(memory).ok());
        sim_configure({});
    }
    char* allocate(size_t length, int device = 0) {
        allocated.push_back(*sim_allocate(length, device));
        return static_cast<char*>(allocated.back());
    }
    void free_last() {
        ASSERT_TRUE(sim_free(allocated.back()).ok());
        allocated.pop_back();
    }
    Counting registrar;
    std::vector<void*> allocated;
};

TEST_F(Cache, RepeatedUseRegistersOnce) {
    RegistrationCache cache(registrar, SIZE_MAX);
    char* memory = allocate(1 << 20);
    for (int i = 0; i < 100; ++i) {
        auto lease = cache.acquire(*locate(memory, 1 << 20), memory + i * 4096, 4096);
        ASSERT_TRUE(lease.ok());
        EXPECT_EQ(lease->start(), reinterpret_cast<uintptr_t>(memory));
    }
    EXPECT_EQ(registrar.last, 1u);
    EXPECT_EQ(cache.stats().hits, 99u);
}

TEST_F(Cache, MemoryAllocatedAnewIsRegisteredAnew) {
    RegistrationCache cache(registrar, SIZE_MAX);
    char* memory = allocate(1 << 16);
    ASSERT_TRUE(cache.acquire(*locate(memory, 1), memory, 1).ok());
    free_last();
    char* again = allocate(1 << 16);
    ASSERT_TRUE(cache.acquire(*locate(again, 1), again, 1).ok());
    EXPECT_EQ(registrar.last, 2u);
    if (again == memory) {
        EXPECT_EQ(registrar.live.size(), 1u) << "the stale entry is gone";
    }
}

TEST_F(Cache, HostMemoryIsNeverCached) {
    RegistrationCache cache(registrar, SIZE_MAX);
    char bytes[100];
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(cache.acquire(*locate(bytes, 100), bytes, 100).ok());
    EXPECT_EQ(registrar.last, 3u);
    EXPECT_TRUE(registrar.live.empty());
}

TEST_F(Cache, TheLeastRecentlyUsedMakesRoom) {
    RegistrationCache cache(registrar, 3 << 16);
    char* a = allocate(1 << 16);
    char* b = allocate(1 << 16);
    char* c = allocate(1 << 16);
    char* d = allocate(1 << 16);
    for (char* memory : {a, b, c, a, d}) ASSERT_TRUE(cache.acquire(*locate(memory, 1), memory, 1).ok());
    EXPECT_EQ(cache.stats().evictions, 1u);
    uint64_t before = registrar.last;
    ASSERT_TRUE(cache.acquire(*locate(a, 1), a, 1).ok());
    EXPECT_EQ(registrar.last, before) << "a was used more recently than b";
    ASSERT_TRUE(cache.acquire(*locate(b, 1), b, 1).ok());
    EXPECT_EQ(registrar.last, before + 1);
}

TEST_F(Cache, LargerThanTheApertureGoesInWindows) {
    SimSettings settings;
    settings.aperture = 1 << 16;
    sim_configure(settings);
    RegistrationCache cache(registrar, SIZE_MAX);
    char* memory = allocate(1 << 20);
    Place place = *locate(memory, 1 << 20);
    EXPECT_EQ(cache.window(place), size_t{1} << 16);
    EXPECT_EQ(cache.acquire(place, memory, (1 << 16) + 1).status().errno_value(), ENOSPC);
    for (size_t at = 0; at < (1 << 20); at += 1 << 16) {
        auto lease = cache.acquire(place, memory + at, 1 << 16);
        ASSERT_TRUE(lease.ok()) << lease.status().message();
        EXPECT_EQ(lease->start(), reinterpret_cast<uintptr_t>(memory + at));
    }
    auto held = cache.acquire(place, memory, 1 << 16);
    ASSERT_TRUE(held.ok());
    EXPECT_EQ(cache.acquire(place, memory + (1 << 17), 1).status().errno_value(), EBUSY) << "what is in use stays";
    held->reset();
    EXPECT_TRUE(cache.acquire(place, memory + (1 << 17), 1).ok());
}

TEST_F(Cache, AFailedRegistrationLeavesNothing) {
    RegistrationCache cache(registrar, SIZE_MAX);
    char* memory = allocate(4096);
    registrar.fail = true;
    EXPECT_EQ(cache.acquire(*locate(memory, 1), memory, 1).status().errno_value(), ENOMEM);
    registrar.fail = false;
    EXPECT_TRUE(cache.acquire(*locate(memory, 1), memory, 1).ok());
    EXPECT_EQ(cache.stats().bytes, 4096u);
}

TEST_F(Cache, DroppedWhileInUseGoesWithTheLease) {
    RegistrationCache cache(registrar, SIZE_MAX);
    char* memory = allocate(4096);
    Place place = *locate(memory, 1);
    auto lease = cache.acquire(place, memory, 1);
    ASSERT_TRUE(lease.ok());
    cache.drop(*place.kind, place.allocation.id);
    EXPECT_EQ(registrar.live.size(), 1u);
    lease->reset();
    EXPECT_TRUE(registrar.live.empty());
    EXPECT_EQ(cache.stats().bytes, 0u);
}

}  // namespace
}  // namespace fabric::xds::memory
