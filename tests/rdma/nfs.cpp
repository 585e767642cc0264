#include "tests/rdma/nfs.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "common/unique_fd.h"

namespace rogue {
namespace {

/// post_op_attr (RFC 1813 section 2.6).
void skip_attributes3(Decoder& in) {
    if (in.u32()) in.skip(84);
}

void skip_wcc3(Decoder& in) {
    if (in.u32()) in.skip(24);
    skip_attributes3(in);
}

void send_all(int fd, std::span<const uint8_t> data) {
    while (!data.empty()) {
        ssize_t sent = ::send(fd, data.data(), data.size(), MSG_NOSIGNAL);
        check(sent > 0, "MOUNT: send failed");
        data = data.subspan(static_cast<size_t>(sent));
    }
}

Bytes receive_exactly(int fd, size_t size) {
    Bytes data(size);
    size_t got = 0;
    while (got < size) {
        ssize_t n = ::recv(fd, data.data() + got, size - got, 0);
        check(n > 0, "MOUNT: no answer");
        got += static_cast<size_t>(n);
    }
    return data;
}

fabric::UniqueFd connect_tcp(const std::string& address, const std::string& port) {
    addrinfo hints{}, *found = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    check(getaddrinfo(address.c_str(), port.c_str(), &hints, &found) == 0, "no address for " + address);
    fabric::UniqueFd fd(::socket(found->ai_family, SOCK_STREAM, 0));
    timeval limit{20, 0};
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    int rc = ::connect(fd.get(), found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    check(rc == 0, "MOUNT: cannot connect to " + address + " port " + port);
    return fd;
}

}  // namespace

Encoder rpc_call(uint32_t xid, uint32_t program, uint32_t version, uint32_t procedure) {
    Encoder credential;
    credential.u32(0).string("rogue").u32(0).u32(0).u32(0);  // stamp, machine, uid, gid, no further groups
    Encoder out;
    out.u32(xid).u32(0).u32(2).u32(program).u32(version).u32(procedure);
    out.u32(1).opaque(credential.bytes()).u32(0).u32(0);
    return out;
}

RpcStatus decode_reply(Decoder& in, uint32_t xid) {
    check(in.u32() == xid, "the reply has another xid");
    check(in.u32() == 1, "the answer is not a reply");
    if (in.u32() != 0) return RpcStatus::denied;
    in.u32();
    in.opaque();
    switch (in.u32()) {
        case 0:
            return RpcStatus::success;
        case 4:
            return RpcStatus::garbage_args;
        default:
            return RpcStatus::other;
    }
}

Call null_call(uint32_t xid) { return {rpc_call(xid, nfs_program, 3, static_cast<uint32_t>(Nfs3::null)), 0}; }

Call read3(uint32_t xid, std::span<const uint8_t> handle, uint64_t offset, uint32_t count) {
    Call call{rpc_call(xid, nfs_program, 3, static_cast<uint32_t>(Nfs3::read)), 0};
    call.message.opaque(handle).u64(offset).u32(count);
    return call;
}

Call write3(uint32_t xid, std::span<const uint8_t> handle, uint64_t offset, std::span<const uint8_t> data,
            bool inline_data, uint32_t stable) {
    Call call{rpc_call(xid, nfs_program, 3, static_cast<uint32_t>(Nfs3::write)), 0};
    auto size = static_cast<uint32_t>(data.size());
    call.message.opaque(handle).u64(offset).u32(size).u32(stable).u32(size);
    call.data_position = static_cast<uint32_t>(call.message.size());
    if (inline_data) call.message.fixed(data);
    return call;
}

Call create3(uint32_t xid, std::span<const uint8_t> directory, std::string_view name) {
    Call call{rpc_call(xid, nfs_program, 3, static_cast<uint32_t>(Nfs3::create)), 0};
    call.message.opaque(directory).string(name).u32(0);                // UNCHECKED
    call.message.u32(1).u32(0644).u32(0).u32(0).u32(0).u32(0).u32(0);  // mode; no owner, size, times
    return call;
}

Call readdir3(uint32_t xid, std::span<const uint8_t> directory, uint32_t count) {
    Call call{rpc_call(xid, nfs_program, 3, static_cast<uint32_t>(Nfs3::readdir)), 0};
    call.message.opaque(directory).u64(0).u64(0).u32(count);
    return call;
}

Compound::Compound(uint32_t xid) : xid_(xid) {}

Compound& Compound::putrootfh() {
    operations_.u32(static_cast<uint32_t>(Op::putrootfh));
    ++count_;
    return *this;
}

Compound& Compound::putfh(std::span<const uint8_t> handle) {
    operations_.u32(static_cast<uint32_t>(Op::putfh)).opaque(handle);
    ++count_;
    return *this;
}

Compound& Compound::lookup(std::string_view name) {
    operations_.u32(static_cast<uint32_t>(Op::lookup)).string(name);
    ++count_;
    return *this;
}

Compound& Compound::read(uint64_t offset, uint32_t count) {
    operations_.u32(static_cast<uint32_t>(Op::read)).u32(0).u32(0).u32(0).u32(0).u64(offset).u32(count);
    ++count_;
    return *this;
}

Compound& Compound::write(uint64_t offset, std::span<const uint8_t> data, bool inline_data) {
    auto size = static_cast<uint32_t>(data.size());
    operations_.u32(static_cast<uint32_t>(Op::write)).u32(0).u32(0).u32(0).u32(0).u64(offset).u32(2).u32(size);
    positions_.push_back(unreduced_size());
    if (inline_data) {
        operations_.fixed(data);
    } else {
        left_out_ += round_up4(size);
    }
    ++count_;
    return *this;
}

Compound& Compound::getattr_size() {
    operations_.u32(static_cast<uint32_t>(Op::getattr)).u32(1).u32(1u << 4);  // FATTR4_SIZE
    ++count_;
    return *this;
}

Compound& Compound::create_directory(std::string_view name) {
    constexpr uint32_t nf4dir = 2;
    operations_.u32(static_cast<uint32_t>(Op::create)).u32(nf4dir).string(name).u32(0).u32(0);  // no attributes
    ++count_;
    return *this;
}

uint32_t Compound::unreduced_size() const {
    return static_cast<uint32_t>(rpc_call(xid_, nfs_program, 4, 1).size() + 12 + operations_.size()) + left_out_;
}

Encoder Compound::finish() const {
    Encoder out = rpc_call(xid_, nfs_program, 4, 1);
    out.u32(0).u32(0).u32(count_);  // no tag, minor version 0
    out.append(operations_);
    return out;
}

Bytes setattr_size_operation(uint64_t size) {
    Encoder out;
    out.u32(static_cast<uint32_t>(Op::setattr)).u32(0).u32(0).u32(0).u32(0);  // anonymous state
    out.u32(1).u32(1u << 4).u32(8).u64(size);
    return out.bytes();
}

CompoundReply::CompoundReply(Decoder in) : in_(in) {
    status_ = in_.u32();
    in_.opaque();
    count_ = in_.u32();
}

uint32_t CompoundReply::next(Op op) {
    uint32_t got = in_.u32();
    check(got == static_cast<uint32_t>(op), "the compound's result is of operation " + std::to_string(got) + ", not " +
                                                std::to_string(static_cast<uint32_t>(op)));
    return in_.u32();
}

Read3Result decode_read3(Decoder& in, bool placed) {
    Read3Result result;
    result.status = in.u32();
    skip_attributes3(in);
    if (result.status != 0) return result;
    result.count = in.u32();
    result.eof = in.u32() != 0;
    result.placed = placed;
    if (placed) {
        check(in.u32() == result.count, "READ: the length of the data is not the count");
    } else {
        result.data = in.opaque();
        check(result.data.size() == result.count, "READ: the length of the data is not the count");
    }
    check(in.left() == 0, "READ: " + std::to_string(in.left()) + " bytes behind the end of the reply");
    return result;
}

uint32_t decode_write3_count(Decoder& in) {
    uint32_t status = in.u32();
    check(status == 0, "WRITE answered " + std::to_string(status));
    skip_wcc3(in);
    return in.u32();
}

Bytes mount_export(const std::string& address, const std::string& port, const std::string& path) {
    fabric::UniqueFd fd = connect_tcp(address, port);
    Encoder call = rpc_call(1, mount_program, 3, 1);
    call.string(path);
    Encoder record;
    record.u32(0x80000000u | static_cast<uint32_t>(call.size())).append(call);
    send_all(fd.get(), record.bytes());
    Bytes mark = receive_exactly(fd.get(), 4);
    Bytes reply = receive_exactly(fd.get(), Decoder(mark).u32() & 0x7fffffffu);
    Decoder in(reply);
    check(decode_reply(in, 1) == RpcStatus::success, "MOUNT was refused");
    uint32_t status = in.u32();
    check(status == 0, "MOUNT of " + path + " answered " + std::to_string(status));
    return in.opaque();
}

}  // namespace rogue
