// A process that writes, commits and truncates files while they are drained is killed, at every point where it matters
// and at random ones. What it had acknowledged must be there, at the backing store nothing may be before what was
// acknowledged earlier, and nothing else may have changed. FABRIC_CRASH_ROUNDS sets more rounds than the suite runs.
//
// FABRIC_CRASH_CUT is a command that cuts the power of the disk that the test's folder lies on, and puts it on again
// (tests/vm/cases/powercut.py): it is run after each kill, and what was not made durable may be gone then.
#include <algorithm>
#include <cstdlib>
#include <random>

#include "burstbuffer/store/fsck.h"
#include "tests/unit/burstbuffer/child.h"
#include "tests/unit/burstbuffer/writeback/write_back_fixture.h"

namespace fabric::writeback {
namespace {

// Files are rows of cells, each with the number of the step that wrote it.
using Number = uint32_t;
constexpr uint32_t files = 4;
constexpr uint32_t most_cells = 60000;

const char* power_cut() { return getenv("FABRIC_CRASH_CUT"); }

struct Step {
    enum class Kind : uint32_t { write, commit, truncate } kind = Kind::write;
    Number number = 0;
    uint32_t file = 0;
    uint32_t offset = 0;  // cells; of a truncation, the new size
    uint32_t length = 0;  // cells
    uint32_t done = 0;
};

Step random_step(std::mt19937_64& random, Number number) {
    Step step{.number = number, .file = static_cast<uint32_t>(random() % files)};
    uint64_t kind = random() % 12;
    step.kind = kind == 0 ? Step::Kind::truncate : kind < 5 ? Step::Kind::commit : Step::Kind::write;
    step.offset = static_cast<uint32_t>(random() % (random() % 3 == 0 ? most_cells : 3000));
    if (step.kind == Step::Kind::write && random() % 3 == 0) {  // the same again
        step.offset = static_cast<uint32_t>(random() % 3 * 1000);
        step.length = 1000;
        return step;
    }
    uint64_t longest = random() % 2 == 0 ? 300 : 30000;
    step.length = static_cast<uint32_t>(1 + random() % std::min<uint64_t>(most_cells - step.offset, longest));
    return step;
}

void run(WriteBackFixture& fixture, const WriteBackFixture::Opened& file, const Step& step) {
    if (step.kind == Step::Kind::commit) {
        Status status = fixture.all->commit(file.id);
        ASSERT_TRUE(status.ok()) << status.message();
        // What went through is the front end's to sync; with a kill alone nothing of it is lost.
        if (power_cut() != nullptr) {
            ASSERT_EQ(fixture.sync_through(file), 0);
        }
    } else if (step.kind == Step::Kind::truncate) {
        ASSERT_EQ(fixture.truncate(file, uint64_t{step.offset} * sizeof(Number)), 0);
        // Of a file that has nothing to be drained it went through, and is its client's to sync.
        if (power_cut() != nullptr && !fixture.all->dirty(file.id)) {
            ASSERT_EQ(::fsync(file.fd.get()), 0);
        }
    } else {
        std::vector<Number> cells(step.length, step.number);
        std::span<const char> bytes(reinterpret_cast<const char*>(cells.data()), cells.size() * sizeof(Number));
        uint64_t at = uint64_t{step.offset} * sizeof(Number);
        Result<size_t> taken = fixture.write(file, at, bytes);
        ASSERT_TRUE(taken.ok()) << taken.status().message();
        // The rest goes through; a kill does not lose what the kernel has.
        bytes = bytes.subspan(*taken);
        if (!bytes.empty()) fixture.went_through.insert(file.fd.get());
        ASSERT_EQ(pwrite(file.fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(at + *taken)),
                  static_cast<ssize_t>(bytes.size()));
    }
}

// Not a test of its own: what the parent starts, and kills.
TEST(WriteBackCrashChild, WorksUntilItIsKilled) {
    const char* root = getenv("FABRIC_CRASH_FOLDER");
    if (root == nullptr) return;
    ASSERT_TRUE(fault::arm_from_environment().ok());
    WriteBackFixture fixture(root);
    fixture.options.max_dirty = mib / 4;
    fixture.open();
    std::vector<WriteBackFixture::Opened> opened;
    for (uint32_t i = 0; i < files; ++i) opened.push_back(fixture.file(std::to_string(i)));
    std::mt19937_64 random(strtoull(getenv("FABRIC_CRASH_SEED"), nullptr, 10));
    auto number = static_cast<Number>(strtoul(getenv("FABRIC_CRASH_FIRST"), nullptr, 10));
    for (;; ++number) {
        Step step = random_step(random, number);
        report(step);
        run(fixture, opened[step.file], step);
        if (testing::Test::HasFatalFailure()) return;
        step.done = 1;
        report(step);
    }
}

// What may be in a file.
struct Model {
    struct Cell {
        std::vector<Number> allowed{0};  // the last one is the newest
        Number acknowledged_at = 0;      // step of the commit; 0: the newest is not acknowledged
    };
    std::vector<Cell> cells{std::vector<Cell>(most_cells)};
    uint64_t least_size = 0, most_size = 0;  // cells
    uint64_t written_size = 0;               // after the last write
    bool cutting = false;

    void add(const Step& step) {
        switch (step.kind) {
            case Step::Kind::write:
                write(step);
                break;
            case Step::Kind::commit:
                for (Cell& cell : cells) {
                    if (step.done == 0 || cell.acknowledged_at != 0 || cell.allowed.back() == 0) continue;
                    cell = {{cell.allowed.back()}, step.number};
                }
                if (step.done != 0) least_size = std::max(least_size, written_size);
                break;
            case Step::Kind::truncate:
                cut(step);
        }
    }
    void write(const Step& step) {
        for (uint32_t i = step.offset; i < step.offset + step.length; ++i) {
            cells[i].allowed.push_back(step.number);
            cells[i].acknowledged_at = 0;
        }
        uint64_t end = step.offset + step.length;
        most_size = std::max(most_size, end);
        if (step.done == 0) return;
        written_size = std::max(written_size, end);
        if (power_cut() == nullptr) least_size = written_size;
    }
    void cut(const Step& step) {
        for (size_t i = step.offset; i < cells.size(); ++i) {
            if (step.done != 0) {
                cells[i] = {};
            } else {
                cells[i].allowed.push_back(0);
                cells[i].acknowledged_at = 0;
            }
        }
        uint64_t size = step.offset;
        least_size = step.done != 0 ? size : std::min(least_size, size);
        most_size = step.done != 0 ? size : std::max(most_size, size);
        written_size = step.done != 0 ? size : std::min(written_size, size);
        cutting = step.done == 0;
    }
    // Empty: it may be so, and is from now on.
    std::string settle(const std::string& bytes, bool drained) {
        uint64_t size = bytes.size() / sizeof(Number);
        if (bytes.size() % sizeof(Number) != 0 || size < least_size || size > most_size) {
            return "its size is " + std::to_string(bytes.size()) + " bytes, not " + std::to_string(least_size) +
                   " to " + std::to_string(most_size) + " cells";
        }
        for (uint64_t i = 0; i < size; ++i) {
            Number seen = 0;
            memcpy(&seen, bytes.data() + i * sizeof(Number), sizeof(seen));
            Cell& cell = cells[i];
            if (std::ranges::find(cell.allowed, seen) == cell.allowed.end()) {
                return "cell " + std::to_string(i) + " is " + std::to_string(seen) + ", the newest is " +
                       std::to_string(cell.allowed.back()) + " of " + std::to_string(cell.allowed.size());
            }
            if (cell.allowed.back() != seen) cell.acknowledged_at = 0;
            cell.allowed = {seen};
        }
        if (!drained && cutting) return {};
        least_size = most_size = written_size = size;
        for (uint64_t i = size; i < cells.size(); ++i) cells[i] = {};
        cutting = false;
        return {};
    }
};

class WriteBackCrash : public testing::Test {
  protected:
    std::vector<Step> child(uint64_t seed, const std::string& faults, unsigned milliseconds) {
        return run_child<Step>("WriteBackCrashChild.*",
                               {"FABRIC_CRASH_FOLDER=" + folder_.path(), "FABRIC_CRASH_SEED=" + std::to_string(seed),
                                "FABRIC_CRASH_FIRST=" + std::to_string(next_), "FABRIC_FAULTS=" + faults},
                               milliseconds);
    }

    void replay(const std::vector<Step>& steps) {
        for (size_t i = 0; i < steps.size(); ++i) {
            bool followed = steps[i].done == 0 && i + 1 < steps.size();
            if (!followed) models_[steps[i].file].add(steps[i]);
            next_ = std::max(next_, steps[i].number + 1);
        }
    }

    // Nothing is at the backing store before what was acknowledged earlier.
    void check_order(WriteBackFixture& fixture, const std::string& what) {
        std::vector<std::string> contents;
        Number newest = 0;
        for (uint32_t i = 0; i < files; ++i) {
            contents.push_back(WriteBackFixture::at_backing(fixture.file(std::to_string(i))));
            for (size_t at = 0; at + sizeof(Number) <= contents[i].size(); at += sizeof(Number)) {
                Number seen = 0;
                memcpy(&seen, contents[i].data() + at, sizeof(seen));
                newest = std::max(newest, seen);
            }
        }
        for (uint32_t file = 0; file < files; ++file) {
            const Model& model = models_[file];
            for (size_t i = 0; i < model.cells.size() && !model.cutting; ++i) {
                const Model::Cell& cell = model.cells[i];
                if (cell.acknowledged_at == 0 || cell.acknowledged_at >= newest) continue;
                Number seen = 0;
                ASSERT_LE((i + 1) * sizeof(Number), contents[file].size()) << what;
                memcpy(&seen, contents[file].data() + i * sizeof(Number), sizeof(seen));
                ASSERT_GE(seen, cell.allowed.back())
                    << what << ": file " << file << " cell " << i << ", acknowledged at " << cell.acknowledged_at
                    << ", is not drained, but something of step " << newest << " is";
            }
        }
    }

    void check(const std::string& what, bool drain) {
        WriteBackFixture fixture(folder_.path());
        ASSERT_EQ(fixture.unfit(), "");
        check_order(fixture, what);
        if (HasFatalFailure()) return;
        ASSERT_TRUE(fault::arm(drain ? "" : "drain.open=EIO").ok());
        fixture.open();
        for (uint32_t i = 0; i < files; ++i) {
            ASSERT_EQ(models_[i].settle(fixture.read(fixture.file(std::to_string(i))), false), "")
                << what << ", file " << i;
        }
        if (drain) {
            ASSERT_TRUE(fixture.drained()) << what;
            for (uint32_t i = 0; i < files; ++i) {
                std::string content = WriteBackFixture::at_backing(fixture.file(std::to_string(i)));
                ASSERT_EQ(models_[i].settle(content, true), "") << what << ", drained, file " << i;
            }
        }
        fixture.close();
        Result<store::FsckReport> report =
            store::fsck({.folder = folder_ / "disk", .data = true},
                        [&](const store::Finding& finding) { ADD_FAILURE() << what << ": fsck: " << finding.what; });
        ASSERT_TRUE(report.ok()) << report.status().message();
        if (drain) {
            EXPECT_EQ(report->dirty, 0U);
        }
    }

    Folder folder_;
    std::vector<Model> models_{files};
    Number next_ = 1;
};

TEST_F(WriteBackCrash, WhatWasAcknowledgedIsThere) {
    {
        WriteBackFixture fixture(folder_.path());
        if (std::string why = fixture.unfit(); !why.empty()) GTEST_SKIP() << why;
    }
    const char* points[] = {"store.write",     "writeback.held",      "writeback.publish", "store.publish",
                            "store.published", "writeback.published", "writeback.name",    "writeback.truncated",
                            "drain.open",      "drain.read",          "drain.write",       "drain.fsync",
                            "drain.synced",    "drain.drop",          "drain.dropped"};
    const char* wanted = getenv("FABRIC_CRASH_ROUNDS");
    unsigned rounds = wanted != nullptr ? static_cast<unsigned>(atoi(wanted)) : 30;
    std::mt19937 random(23);
    size_t told = 0;
    for (unsigned round = 0; round < rounds && !HasFatalFailure(); ++round) {
        std::string faults = round % 3 == 0 ? "drain.write=delay:" + std::to_string(random() % 20) : "";
        if (round % 4 != 3) {
            faults += std::string(" ") + points[round % std::size(points)] + "=kill@" + std::to_string(random() % 20);
        }
        std::vector<Step> steps = child(random(), faults, 100 + random() % 300);
        told += steps.size();
        replay(steps);
        if (power_cut() != nullptr) {
            ASSERT_EQ(system(power_cut()), 0) << power_cut();
        }
        check("round " + std::to_string(round) + " (" + faults + ")", round % 3 == 2);
    }
    // Ten times that and more, but how much depends on the machine.
    EXPECT_GT(told, rounds) << "the children did next to nothing";
}

}  // namespace
}  // namespace fabric::writeback
