// A process that uses a store is killed, at every point where it matters and at random ones; what it had acknowledged
// must be there afterwards, and nothing else may have changed. FABRIC_CRASH_ROUNDS sets more rounds than the suite
// runs.
#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "burstbuffer/store/fsck.h"
#include "tests/unit/burstbuffer/child.h"
#include "tests/unit/burstbuffer/store/store_fixture.h"

namespace fabric::store {
namespace {

constexpr uint32_t keys = 12;

// One operation of the child, written to the parent before it begins and again when it is done.
struct Step {
    enum class Kind : uint32_t { put_clean, put_dirty, drop, mark_clean, relocate } kind = Kind::drop;
    uint32_t key = 0;
    uint64_t seed = 0;  // of the content
    uint32_t length = 0;
    uint32_t done = 0;
};

Step random_step(std::mt19937_64& random) {
    Step step;
    step.kind = static_cast<Step::Kind>(random() % 5);
    step.key = static_cast<uint32_t>(random() % keys);
    step.seed = random();
    step.length = static_cast<uint32_t>(1 + random() % (random() % 2 != 0 ? 5000 : 400000));
    return step;
}

Status run(StoreFixture& fixture, const Step& step) {
    ChunkKey key = sample_key(step.key);
    std::string data = random_bytes(step.length, step.seed);
    switch (step.kind) {
        case Step::Kind::put_clean:
            return fixture.put(key, data);
        case Step::Kind::put_dirty:
            return fixture.put(key, data, LocalStore::Kind::dirty);
        case Step::Kind::drop:
            return fixture.store->drop(key);
        case Step::Kind::relocate: {
            std::vector<ChunkKey> moved;
            for (uint32_t i = step.key; i < keys; ++i) moved.push_back(sample_key(i));
            return fixture.store->relocate(moved).status();
        }
        case Step::Kind::mark_clean:
            break;
    }
    std::optional<ChunkRecord> record = fixture.store->find(key).value();
    return record ? fixture.store->mark_clean(key, record->dirty).status() : Status();
}

// Not a test of its own: what the parent starts, and kills.
TEST(StoreCrashChild, WorksUntilItIsKilled) {
    const char* folder = getenv("FABRIC_CRASH_FOLDER");
    if (folder == nullptr) return;
    ASSERT_TRUE(fault::arm_from_environment().ok());
    StoreFixture fixture(folder);
    fixture.open();
    std::mt19937_64 random(strtoull(getenv("FABRIC_CRASH_SEED"), nullptr, 10));
    for (;;) {
        Step step = random_step(random);
        report(step);
        ASSERT_TRUE(run(fixture, step).ok());
        step.done = 1;
        report(step);
    }
}

// What a key may hold: its content's seed and length, and whether it is dirty.
struct State {
    uint64_t seed = 0;
    uint32_t length = 0;
    bool dirty = false;
    bool operator==(const State&) const = default;
};
using Model = std::map<uint32_t, State>;

void replay(const Step& step, Model& model) {
    switch (step.kind) {
        case Step::Kind::drop:
            model.erase(step.key);
            break;
        case Step::Kind::relocate:
            break;
        case Step::Kind::mark_clean:
            if (auto at = model.find(step.key); at != model.end()) at->second.dirty = false;
            break;
        default:
            model[step.key] = {step.seed, step.length, step.kind == Step::Kind::put_dirty};
    }
}

class StoreCrash : public testing::Test {
  protected:
    std::vector<Step> child(uint64_t seed, const std::string& faults, unsigned milliseconds) {
        return run_child<Step>("StoreCrashChild.*",
                               {"FABRIC_CRASH_FOLDER=" + folder_.path(), "FABRIC_CRASH_SEED=" + std::to_string(seed),
                                "FABRIC_FAULTS=" + faults},
                               milliseconds);
    }

    // Empty: the store is what the model says; else the first difference.
    static std::string difference(StoreFixture& fixture, const Model& model) {
        for (uint32_t key = 0; key < keys; ++key) {
            std::string name = "key " + std::to_string(key);
            auto expected = model.find(key);
            StoreFixture::Answer answer = fixture.read(sample_key(key));
            if (expected == model.end()) {
                if (answer.outcome != Read::Outcome::miss) return name + " is there";
                continue;
            }
            const State& state = expected->second;
            if (answer.outcome != Read::Outcome::hit)
                return name + " is not there: " + std::to_string(static_cast<int>(answer.outcome)) +
                       answer.status.message();
            if (answer.bytes != random_bytes(state.length, state.seed)) return name + " has other bytes";
            bool dirty = fixture.store->find(sample_key(key)).value()->dirty != 0;
            if (dirty != state.dirty) return name + (dirty ? " is dirty" : " is clean");
        }
        return "";
    }

    // The store is the model with the acknowledged steps, and perhaps the one that was under way.
    void check(const std::vector<Step>& steps, const std::string& what) {
        std::optional<Step> under_way;
        for (const Step& step : steps) {
            under_way = step.done != 0 ? std::nullopt : std::optional(step);
            if (step.done != 0) replay(step, model_);
        }
        StoreFixture fixture(folder_.path());
        fixture.open();
        std::string without = difference(fixture, model_);
        if (!without.empty()) {
            ASSERT_TRUE(under_way) << what << ": not what was acknowledged: " << without;
            replay(*under_way, model_);
            std::string with = difference(fixture, model_);
            ASSERT_EQ(with, "") << what << ": with the step that was under way; without it, " << without;
        }
        fixture.store.reset();
        Result<FsckReport> report = fsck({.folder = folder_.path(), .data = true}, [&](const Finding& finding) {
            ADD_FAILURE() << what << ": fsck: " << finding.what;
        });
        ASSERT_TRUE(report.ok()) << report.status().message();
        EXPECT_EQ(report->records, model_.size());
    }

    Folder folder_;
    Model model_;
};

TEST_F(StoreCrash, WhatWasAcknowledgedIsThere) {
    const char* points[] = {"backing.write",   "backing.fsync",     "store.write", "store.publish",
                            "store.published", "store.preallocate", "store.move",  "store.moved"};
    const char* wanted = getenv("FABRIC_CRASH_ROUNDS");
    unsigned rounds = wanted != nullptr ? static_cast<unsigned>(atoi(wanted)) : 24;
    std::mt19937 random(17);
    size_t told = 0;
    for (unsigned round = 0; round < rounds && !HasFatalFailure(); ++round) {
        std::string faults;
        if (round % 4 != 3)
            faults = std::string(points[random() % std::size(points)]) + "=kill@" + std::to_string(random() % 20);
        std::vector<Step> steps = child(random(), faults, 100 + random() % 400);
        told += steps.size();
        check(steps, "round " + std::to_string(round) + " (" + faults + ")");
    }
    EXPECT_GT(told, rounds * 4) << "the children did next to nothing";
}

}  // namespace
}  // namespace fabric::store
