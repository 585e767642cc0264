// The messages of XDS, version 1, each with one description of its fields that encoding, decoding and printing share.
// WIRE.md is the specification: change it, vectors.txt and this file together.
//
// Text and lists are views: of the caller's memory when encoding, of the received bytes when decoded.
#pragma once

#include <variant>

#include "xds/protocol/types.h"

namespace fabric::xds::wire {

struct Hello {
    static constexpr Type type = Type::hello;
    uint16_t version_min = version, version_max = version;
    uint32_t features = 0;  // none defined: 0
    uint32_t max_data = wire::max_data;
    Id cluster{};
    Id nonce{};
    uint64_t time_ns = 0;     // client's clock, since 1970
    std::string_view ticket;  // who the client is; empty: nobody
    std::array<std::byte, 32> proof{};
};
template <typename A>
void fields(A& a, Access<A, Hello>& m) {
    a("version_min", m.version_min);
    a("version_max", m.version_max);
    a("features", m.features);
    a("max_data", m.max_data);
    a("cluster", m.cluster);
    a("nonce", m.nonce);
    a("time_ns", m.time_ns);
    a.text("ticket", m.ticket, max_ticket);
    a("proof", m.proof);
}

struct HelloReply {
    static constexpr Type type = Type::hello_reply;
    uint16_t version = wire::version;
    uint16_t reserved = 0;
    uint32_t features = 0;
    uint32_t max_data = wire::max_data;
    uint64_t instance = 0;  // another one after each start of the target: what was not flushed may be gone
    uint64_t map_epoch = 0;
    Id nonce{};
    std::array<std::byte, 32> proof{};
    std::string_view node;
};
template <typename A>
void fields(A& a, Access<A, HelloReply>& m) {
    a("version", m.version);
    a("reserved", m.reserved);
    a("features", m.features);
    a("max_data", m.max_data);
    a("instance", m.instance);
    a("map_epoch", m.map_epoch);
    a("nonce", m.nonce);
    a("proof", m.proof);
    a.text("node", m.node, max_node);
}

namespace open_flags {
inline constexpr uint32_t read = 1, write = 2, create = 4, exclusive = 8, truncate = 16, all = 31;
}

// By path (relative to the target's export root) or, with an empty path, by FileId and capability.
struct Open {
    static constexpr Type type = Type::open;
    uint32_t flags = 0;
    uint32_t mode = 0;  // permission bits of a file that is created
    std::string_view path;
    FileId file;
    std::string_view capability;
};
template <typename A>
void fields(A& a, Access<A, Open>& m) {
    a("flags", m.flags);
    a("mode", m.mode);
    a.text("path", m.path, max_path);
    fields(a, m.file);
    a.text("capability", m.capability, max_ticket);
}

struct OpenReply {
    static constexpr Type type = Type::open_reply;
    uint32_t handle = 0;  // valid on this connection
    uint32_t reserved = 0;
    Attributes attributes;
    FileId file;
    std::string_view capability;  // opens the same file, with the same rights, on any target of the cluster
};
template <typename A>
void fields(A& a, Access<A, OpenReply>& m) {
    a("handle", m.handle);
    a("reserved", m.reserved);
    fields(a, m.attributes);
    fields(a, m.file);
    a.text("capability", m.capability, max_ticket);
}

struct Close {
    static constexpr Type type = Type::close;
    uint32_t handle = 0;
};
template <typename A>
void fields(A& a, Access<A, Close>& m) {
    a("handle", m.handle);
}
struct CloseReply {
    static constexpr Type type = Type::close_reply;
};
template <typename A>
void fields(A&, Access<A, CloseReply>&) {}

struct Layout {
    static constexpr Type type = Type::layout;
    uint32_t handle = 0;
    uint64_t map_epoch = 0;  // the newest the client knows
};
template <typename A>
void fields(A& a, Access<A, Layout>& m) {
    a("handle", m.handle);
    a("map_epoch", m.map_epoch);
}

// A member's name and address lie one behind the other in the reply's `texts`.
struct Member {
    static constexpr size_t wire_size = 16;
    uint32_t text_at = 0;
    uint16_t node_length = 0, address_length = 0;
    uint32_t weight = 0;
    uint32_t reserved = 0;
};
template <typename A>
void fields(A& a, Access<A, Member>& m) {
    a("text_at", m.text_at);
    a("node_length", m.node_length);
    a("address_length", m.address_length);
    a("weight", m.weight);
    a("reserved", m.reserved);
}

// Which node serves a chunk is computed from these three, by weighted rendezvous hashing; nothing is listed per chunk.
struct LayoutReply {
    static constexpr Type type = Type::layout_reply;
    uint64_t map_epoch = 0;
    uint64_t chunk_size = 0;  // bytes, a power of two
    List<Member> members;
    std::string_view texts;
};
template <typename A>
void fields(A& a, Access<A, LayoutReply>& m) {
    a("map_epoch", m.map_epoch);
    a("chunk_size", m.chunk_size);
    a.list("members", m.members, max_members);
    a.text("texts", m.texts, max_body);
    for (size_t i = 0; A::reads && i < m.members.size(); ++i) {
        Member member = m.members[i];
        a.check(uint64_t{member.text_at} + member.node_length + member.address_length <= m.texts.size());
    }
}

namespace io_flags {
inline constexpr uint32_t checksum = 1;     // request: send one; reply and write: data_crc is set
inline constexpr uint32_t end_of_file = 2;  // reply: nothing lies behind what was read
inline constexpr uint32_t stable = 4;       // write: durable before the reply
inline constexpr uint32_t invalidate = 8;   // request, RDMA: the answer may invalidate the first segment's rkey
}  // namespace io_flags

struct Read {
    static constexpr Type type = Type::read;
    uint32_t handle = 0;
    uint32_t flags = 0;
    uint64_t offset = 0;  // bytes, any
    uint64_t length = 0;  // bytes, at most max_data of both sides
    uint64_t map_epoch = 0;
    uint32_t deadline_ms = 0;  // the reply is of no use after this; 0: no limit
    List<Segment> segments;
};
template <typename A>
void fields(A& a, Access<A, Read>& m) {
    a("handle", m.handle);
    a("flags", m.flags);
    a("offset", m.offset);
    a("length", m.length);
    a("map_epoch", m.map_epoch);
    a("deadline_ms", m.deadline_ms);
    a.list("segments", m.segments, max_segments);
}

struct ReadReply {
    static constexpr Type type = Type::read_reply;
    uint32_t flags = 0;
    uint32_t data_crc = 0;  // CRC32C of the data, when flags say so
    uint64_t length = 0;    // bytes moved; fewer than asked only at the end of the file
    uint64_t copied = 0;    // of these, bytes that the target's processor copied
};
template <typename A>
void fields(A& a, Access<A, ReadReply>& m) {
    a("flags", m.flags);
    a("data_crc", m.data_crc);
    a("length", m.length);
    a("copied", m.copied);
}

struct Write {
    static constexpr Type type = Type::write;
    uint32_t handle = 0;
    uint32_t flags = 0;
    uint64_t offset = 0;
    uint64_t length = 0;
    uint64_t map_epoch = 0;
    uint32_t deadline_ms = 0;
    uint32_t data_crc = 0;
    List<Segment> segments;
};
template <typename A>
void fields(A& a, Access<A, Write>& m) {
    a("handle", m.handle);
    a("flags", m.flags);
    a("offset", m.offset);
    a("length", m.length);
    a("map_epoch", m.map_epoch);
    a("deadline_ms", m.deadline_ms);
    a("data_crc", m.data_crc);
    a.list("segments", m.segments, max_segments);
}

struct WriteReply {
    static constexpr Type type = Type::write_reply;
    uint32_t flags = 0;
    uint32_t reserved = 0;
    uint64_t length = 0;
    uint64_t instance = 0;
};
template <typename A>
void fields(A& a, Access<A, WriteReply>& m) {
    a("flags", m.flags);
    a("reserved", m.reserved);
    a("length", m.length);
    a("instance", m.instance);
}

struct Flush {
    static constexpr Type type = Type::flush;
    uint32_t handle = 0;
    uint32_t flags = 0;
};
template <typename A>
void fields(A& a, Access<A, Flush>& m) {
    a("handle", m.handle);
    a("flags", m.flags);
}

struct FlushReply {
    static constexpr Type type = Type::flush_reply;
    uint64_t instance = 0;
};
template <typename A>
void fields(A& a, Access<A, FlushReply>& m) {
    a("instance", m.instance);
}

// By handle, or by path when there is one.
struct Stat {
    static constexpr Type type = Type::stat;
    uint32_t handle = 0;
    std::string_view path;
};
template <typename A>
void fields(A& a, Access<A, Stat>& m) {
    a("handle", m.handle);
    a.text("path", m.path, max_path);
}

struct StatReply {
    static constexpr Type type = Type::stat_reply;
    Attributes attributes;
    FileId file;
};
template <typename A>
void fields(A& a, Access<A, StatReply>& m) {
    fields(a, m.attributes);
    fields(a, m.file);
}

// One file of a batch: its path is names[name_at, name_at + name_length).
struct ManyEntry {
    static constexpr size_t wire_size = 24;
    uint32_t name_at = 0;
    uint16_t name_length = 0;
    uint16_t reserved = 0;
    uint32_t length = 0;  // bytes wanted from the file's start, at most
    uint32_t reserved2 = 0;
    uint64_t placement = 0;  // RDMA: where its data goes, bytes from the start of the segments taken as one
};
template <typename A>
void fields(A& a, Access<A, ManyEntry>& m) {
    a("name_at", m.name_at);
    a("name_length", m.name_length);
    a("reserved", m.reserved);
    a("length", m.length);
    a("reserved2", m.reserved2);
    a("placement", m.placement);
}

struct ReadMany {
    static constexpr Type type = Type::read_many;
    uint32_t flags = 0;
    uint32_t deadline_ms = 0;
    List<ManyEntry> entries;
    std::string_view names;
    List<Segment> segments;
};
template <typename A>
void fields(A& a, Access<A, ReadMany>& m) {
    a("flags", m.flags);
    a("deadline_ms", m.deadline_ms);
    a.list("entries", m.entries, max_many);
    a.text("names", m.names, max_body);
    a.list("segments", m.segments, max_segments);
    for (size_t i = 0; A::reads && i < m.entries.size(); ++i) {
        ManyEntry entry = m.entries[i];
        a.check(uint64_t{entry.name_at} + entry.name_length <= m.names.size());
    }
}

// Each file has its own outcome; the data of those that worked follows inline, in order, without gaps.
struct ManyResult {
    static constexpr size_t wire_size = 24;
    uint32_t error = 0;   // errno, 0: worked
    uint32_t length = 0;  // bytes
    uint64_t size = 0;    // of the file, bytes
    uint32_t data_crc = 0;
    Cause cause = Cause::none;
    uint16_t reserved = 0;
    friend bool operator==(const ManyResult&, const ManyResult&) = default;
};
template <typename A>
void fields(A& a, Access<A, ManyResult>& m) {
    a("error", m.error);
    a("length", m.length);
    a("size", m.size);
    a("data_crc", m.data_crc);
    a("cause", m.cause);
    a("reserved", m.reserved);
}

struct ReadManyReply {
    static constexpr Type type = Type::read_many_reply;
    uint32_t flags = 0;
    List<ManyResult> results;
};
template <typename A>
void fields(A& a, Access<A, ReadManyReply>& m) {
    a("flags", m.flags);
    a.list("results", m.results, max_many);
}

// Has no reply of its own: the request that it names is always answered, by its result or by cause `cancelled`.
struct Cancel {
    static constexpr Type type = Type::cancel;
    uint64_t victim = 0;
};
template <typename A>
void fields(A& a, Access<A, Cancel>& m) {
    a("victim", m.victim);
}

// From the target, and costs a credit that the client granted: placements older than map_epoch are over.
struct LayoutRecall {
    static constexpr Type type = Type::layout_recall;
    uint64_t map_epoch = 0;
};
template <typename A>
void fields(A& a, Access<A, LayoutRecall>& m) {
    a("map_epoch", m.map_epoch);
}
// The client has no request under an older epoch in flight any more.
struct RecallDone {
    static constexpr Type type = Type::recall_done;
    uint64_t map_epoch = 0;
};
template <typename A>
void fields(A& a, Access<A, RecallDone>& m) {
    a("map_epoch", m.map_epoch);
}

// Only the header's credits count.
struct Credit {
    static constexpr Type type = Type::credit;
};
template <typename A>
void fields(A&, Access<A, Credit>&) {}

// The sender answers what it has and takes nothing new.
struct Goodbye {
    static constexpr Type type = Type::goodbye;
    Cause cause = Cause::none;
    std::string_view text;
};
template <typename A>
void fields(A& a, Access<A, Goodbye>& m) {
    a("cause", m.cause);
    a.check(static_cast<uint16_t>(m.cause) < cause_count);
    a.text("text", m.text, max_text);
}

struct Error {
    static constexpr Type type = Type::error;
    uint32_t error = 0;  // Linux errno, never 0
    Cause cause = Cause::internal;
    uint16_t reserved = 0;
    uint32_t retry_after_ms = 0;
    uint64_t map_epoch = 0;
    std::string_view node;
    std::string_view text;  // for a person
};
template <typename A>
void fields(A& a, Access<A, Error>& m) {
    a("error", m.error);
    a.check(m.error > 0 && m.error < 4096);
    a("cause", m.cause);
    a.check(static_cast<uint16_t>(m.cause) < cause_count);
    a("reserved", m.reserved);
    a("retry_after_ms", m.retry_after_ms);
    a("map_epoch", m.map_epoch);
    a.text("node", m.node, max_node);
    a.text("text", m.text, max_text);
}

// In the order of Type.
using Body = std::variant<Hello, HelloReply, Open, OpenReply, Close, CloseReply, Layout, LayoutReply, Read, ReadReply,
                          Write, WriteReply, Flush, FlushReply, Stat, StatReply, ReadMany, ReadManyReply, Cancel,
                          LayoutRecall, RecallDone, Credit, Goodbye, Error>;

}  // namespace fabric::xds::wire
