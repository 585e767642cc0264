#include "burstbuffer/stage/inspect.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <latch>

#include "burstbuffer/cache/file_backing.h"

namespace fabric::stage {

using index::ChunkKey;

namespace {

struct Free {
    void operator()(char* memory) const { free(memory); }
};
using Memory = std::unique_ptr<char, Free>;
Memory aligned_chunk() { return Memory(static_cast<char*>(std::aligned_alloc(4096, ChunkKey::chunk_size))); }

struct Awaited : store::Read {
    std::latch over{1};
};

// False: it is not held.
bool read_held(cache::Cache& cache, const ChunkKey& key, char* to, Awaited& read) {
    read.key = key;
    read.size = ChunkKey::chunk_size;
    read.to = to;
    read.finished = [](store::Read& finished) { static_cast<Awaited&>(finished).over.count_down(); };
    if (!cache.disks().start(read)) return false;
    read.over.wait();
    return true;
}

Status read_file(int fd, char* to, size_t size, uint64_t offset) {
    for (size_t done = 0; done < size;) {
        ssize_t got = pread(fd, to + done, size - done, static_cast<off_t>(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return Status::from_errno(got < 0 ? errno : ESTALE, "reading the backing store");
        done += static_cast<size_t>(got);
    }
    return {};
}

}  // namespace

Share& Share::operator+=(const Share& other) {
    files += other.files;
    bytes += other.bytes;
    held_files += other.held_files;
    held_bytes += other.held_bytes;
    pinned_files += other.pinned_files;
    return *this;
}

Share share_of(cache::Cache& cache, const TreeFile& file) {
    cache::Cache::Held held = cache.held(file.id, file.version);
    uint64_t chunks = (file.version.size + ChunkKey::chunk_size - 1) / ChunkKey::chunk_size;
    return {.files = 1,
            .bytes = file.version.size,
            .held_files = held.chunks == chunks ? 1U : 0U,
            .held_bytes = held.bytes,
            .pinned_files = chunks != 0 && held.pinned == chunks ? 1U : 0U};
}

Verified verify(cache::Cache& cache, const TreeFile& file, const fs::Filesystem& filesystem) {
    Result<UniqueFd> opened = filesystem.open(file.id, O_RDONLY);
    if (!opened.ok()) return {Verdict::unreadable, opened.status().message()};
    Memory held = aligned_chunk(), wanted = aligned_chunk();
    if (held == nullptr || wanted == nullptr) return {Verdict::unreadable, "no memory"};
    uint64_t there = 0, chunks = 0;
    for (uint64_t offset = 0; offset < file.version.size; offset += ChunkKey::chunk_size, ++chunks) {
        size_t size = std::min<uint64_t>(ChunkKey::chunk_size, file.version.size - offset);
        Awaited read;
        if (!read_held(cache, {file.id, file.version, static_cast<uint32_t>(chunks)}, held.get(), read)) continue;
        ++there;
        if (read.outcome != store::Read::Outcome::hit) return {Verdict::different, read.status.message()};
        if (Status status = read_file(opened->get(), wanted.get(), size, offset); !status.ok()) {
            return {Verdict::unreadable, status.message()};
        }
        if (read.bytes != size || memcmp(held.get(), wanted.get(), size) != 0) {
            Result<index::FileVersion> now = cache::version_of(opened->get());
            if (now.ok() && *now != file.version) return {Verdict::unreadable, "it changed while it was compared"};
            return {Verdict::different, "chunk " + std::to_string(chunks) + " has other bytes"};
        }
    }
    if (there == chunks) return {Verdict::same, ""};
    return {there == 0 ? Verdict::not_held : Verdict::partly,
            std::to_string(there) + " of " + std::to_string(chunks) + " chunks"};
}

}  // namespace fabric::stage
