// What messages are made of: types, causes, the header, and the fields that several messages share.
#pragma once

#include "xds/protocol/archive.h"
#include "xds/protocol/limits.h"

namespace fabric::xds::wire {

enum class Type : uint8_t {
    hello = 1,
    hello_reply,
    open,
    open_reply,
    close,
    close_reply,
    layout,
    layout_reply,
    read,
    read_reply,
    write,
    write_reply,
    flush,
    flush_reply,
    stat,
    stat_reply,
    read_many,
    read_many_reply,
    cancel,
    layout_recall,
    recall_done,
    credit,
    goodbye,
    error,
};

// Why a request failed, for a program that decides what to do next; the errno is for its POSIX caller.
enum class Cause : uint16_t {
    none,
    access,        // no capability or ticket, or a wrong one, or the file system's permissions
    not_found,     // also: a handle of an earlier connection
    file_system,   // the backing file system refused; the errno says why
    device,        // the storage failed
    stale_layout,  // the request's map epoch is old; the error carries the current one
    overloaded,    // try again after retry_after_ms
    draining,      // the target is going down; go elsewhere
    bad_request,   // well-formed, but makes no sense
    not_supported,
    cancelled,
    deadline,  // the request's own time limit passed
    checksum,  // data arrived damaged
    internal,
};
inline constexpr uint16_t cause_count = 14;

struct Header {
    Type type = Type::error;
    uint8_t flags = 0;         // none defined: 0
    uint16_t credits = 0;      // messages that need a credit which the receiver may send in addition
    uint32_t body_length = 0;  // bytes
    uint32_t data_length = 0;  // bytes of inline data behind the body (TCP; 0 over RDMA)
    uint64_t request = 0;      // chosen by the side that asks; a reply repeats it
    uint32_t checksum = 0;     // CRC32C of the header without this field, then the body; not of inline data
};

using Id = std::array<std::byte, 16>;

// A file by the file system's UUID and the kernel's handle; empty handle: none.
struct FileId {
    Id file_system{};
    int32_t handle_type = 0;
    std::string_view handle;
};
template <typename A>
void fields(A& a, Access<A, FileId>& m) {
    a("file_system", m.file_system);
    a("handle_type", m.handle_type);
    a.text("file_handle", m.handle, max_handle);
}

struct Attributes {
    uint64_t size = 0;  // bytes
    uint64_t inode = 0;
    int64_t mtime_ns = 0;  // since 1970
    int64_t ctime_ns = 0;
    uint32_t mode = 0;  // st_mode
    uint32_t uid = 0, gid = 0, links = 0;
};
template <typename A>
void fields(A& a, Access<A, Attributes>& m) {
    a("size", m.size);
    a("inode", m.inode);
    a("mtime_ns", m.mtime_ns);
    a("ctime_ns", m.ctime_ns);
    a("mode", m.mode);
    a("uid", m.uid);
    a("gid", m.gid);
    a("links", m.links);
}

// Memory of the client that an RDMA target moves data to or from. Empty over TCP: data is inline.
struct Segment {
    static constexpr size_t wire_size = 16;
    uint64_t address = 0;
    uint32_t rkey = 0;
    uint32_t length = 0;  // bytes
    friend bool operator==(const Segment&, const Segment&) = default;
};
template <typename A>
void fields(A& a, Access<A, Segment>& m) {
    a("address", m.address);
    a("rkey", m.rkey);
    a("length", m.length);
}

}  // namespace fabric::xds::wire
