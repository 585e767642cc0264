// The few NFS calls that the scenarios need, as RPC messages: v3 (RFC 1813) and v4.0 compounds (RFC 7530).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/rdma/xdr.h"

namespace rogue {

constexpr uint32_t nfs_program = 100003, mount_program = 100005;

enum class Nfs3 : uint32_t {
    null = 0,
    getattr = 1,
    lookup = 3,
    read = 6,
    write = 7,
    create = 8,
    readdir = 16,
    readdirplus = 17
};
enum class Op : uint32_t {
    create = 6,
    getattr = 9,
    lookup = 15,
    putfh = 22,
    putrootfh = 24,
    read = 25,
    readdir = 26,
    setattr = 34,
    write = 38
};

/// Call header with AUTH_SYS, uid and gid 0 (RFC 5531).
Encoder rpc_call(uint32_t xid, uint32_t program, uint32_t version, uint32_t procedure);

/// What the header of a reply says; `in` is left at the results.
enum class RpcStatus { success, garbage_args, denied, other };
RpcStatus decode_reply(Decoder& in, uint32_t xid);

/// A WRITE's or READ's call and the place of its data in the whole RPC message.
struct Call {
    Encoder message;
    uint32_t data_position = 0;  // of a data item that may be reduced, in bytes from the message's start
};

Call null_call(uint32_t xid);
Call read3(uint32_t xid, std::span<const uint8_t> handle, uint64_t offset, uint32_t count);
/// Without `inline_data` the data and its padding are left out, to come by a read chunk at `data_position`.
Call write3(uint32_t xid, std::span<const uint8_t> handle, uint64_t offset, std::span<const uint8_t> data,
            bool inline_data, uint32_t stable = 2);
Call create3(uint32_t xid, std::span<const uint8_t> directory, std::string_view name);
Call readdir3(uint32_t xid, std::span<const uint8_t> directory, uint32_t count);

/// A v4.0 COMPOUND under construction.
class Compound {
  public:
    explicit Compound(uint32_t xid);

    Compound& putrootfh();
    Compound& putfh(std::span<const uint8_t> handle);
    Compound& lookup(std::string_view name);
    Compound& read(uint64_t offset, uint32_t count);  // anonymous state
    Compound& write(uint64_t offset, std::span<const uint8_t> data, bool inline_data);
    Compound& getattr_size();
    Compound& create_directory(std::string_view name);

    /// Positions of the data of the WRITEs, in the unreduced stream.
    const std::vector<uint32_t>& data_positions() const { return positions_; }
    Encoder finish() const;

  private:
    uint32_t unreduced_size() const;

    uint32_t xid_;
    Encoder operations_;
    uint32_t count_ = 0, left_out_ = 0;
    std::vector<uint32_t> positions_;
};

/// SETATTR of an empty file: the operation that nobody ever sends here but inside a file's bytes.
Bytes setattr_size_operation(uint64_t size);

/// Reads the results of a compound, operation by operation.
class CompoundReply {
  public:
    explicit CompoundReply(Decoder in);
    uint32_t status() const { return status_; }
    uint32_t count() const { return count_; }
    /// The status of the next result, which must be of `op`; its body follows when it is 0.
    uint32_t next(Op op);
    Decoder& body() { return in_; }

  private:
    Decoder in_;
    uint32_t status_ = 0, count_ = 0;
};

struct Read3Result {
    uint32_t status = 0, count = 0;
    bool eof = false;
    bool placed = false;  // the data is elsewhere, in a write chunk
    Bytes data;
};
/// `placed`: the reply was reduced, its data item is in a write chunk.
Read3Result decode_read3(Decoder& in, bool placed);
uint32_t decode_write3_count(Decoder& in);

/// MOUNT version 3 over TCP: the root handle of an export. Throws Failure.
Bytes mount_export(const std::string& address, const std::string& port, const std::string& path);

}  // namespace rogue
