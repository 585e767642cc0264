// What write-back keeps of a file that has something to be drained, and of the rule that it falls under.
#pragma once

#include <atomic>
#include <chrono>
#include <ctime>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "burstbuffer/writeback/extents.h"
#include "burstbuffer/writeback/piece.h"
#include "common/fs/filesystem.h"

namespace fabric::writeback {

// The rest is under WriteBack's mutex.
struct File {
    explicit File(const fs::FileId& of) : id(of) {}

    const fs::FileId id;
    // Held while a piece is written to the backing store, and while the file is truncated: neither undoes the other.
    std::mutex shape;
    // Held while the file's size or time is changed there. Taken after `shape`.
    std::mutex attributes;

    // Held while the drain has it open. Taken before the others.
    std::mutex opened;
    // Somebody waits for `opened`.
    std::atomic<bool> let_go{false};

    fs::FilesystemPtr filesystem;  // null: not met since the start
    size_t queue = 0;
    Extents extents;
    std::vector<PiecePtr> pieces;  // oldest first, until nothing of them is left on the disks
    size_t unpublished = 0;        // of these
    // As the clients know it: draining must not change it. Nothing: as the backing store has it.
    std::optional<timespec> mtime;
    bool named = false;  // the backing store has its name for good
    size_t users = 0;    // calls that hold a pointer to it
};
using FilePtr = std::shared_ptr<File>;

struct Entry {
    FilePtr file;
    PiecePtr piece;
};

// What keeps a queue from getting on.
struct Trouble {
    Status cause;
    bool local = false;  // it is this node's disk, not the backing store
    unsigned tries = 0;
};

// One rule's pieces: they reach the backing store in the order in which they became durable.
struct Queue {
    std::string rule;
    uint32_t hash = 0;
    std::map<uint64_t, Entry> waiting;  // by sequence
    std::vector<Entry> dead;            // done with: their records are to be dropped
    uint64_t bytes = 0;                 // on the disks, published or not, dead ones too
    std::optional<Trouble> trouble;
    uint64_t failures = 0;  // since the start
    unsigned hurried = 0;   // somebody waits: no rate limit
    bool try_now = false;
    double rate = 0;  // bytes a second, lately
    // The drain's own: what clients had read, and when they had read more.
    uint64_t seen_read = 0;
    std::chrono::steady_clock::time_point read_at;
};

}  // namespace fabric::writeback
