// How the server puts a call together from its inline part and its chunks.
#include <cstring>

#include "tests/rdma/scenario.h"

namespace rogue {
namespace {

uint64_t size_from_getattr(CompoundReply& reply) {
    check(reply.next(Op::getattr) == 0, "GETATTR failed");
    Bytes mask = reply.body().fixed(reply.body().u32() * 4);
    check(reply.body().u32() == 8, "GETATTR returned something else than a size");
    return reply.body().u64();
}

CompoundReply compound(Client& client, Answer& answer, uint32_t xid, const Header& header, const Encoder& message) {
    answer = client.call(header, message);
    Decoder in(answer.message);
    check(decode_reply(in, xid) == RpcStatus::success, "COMPOUND was refused");
    return CompoundReply(in);
}

/// A file of `size` bytes written inline by a v4.0 compound that ends with GETATTR; returns what GETATTR said.
uint64_t write_inline_then_getattr(Client& client, const std::string& name, std::span<const uint8_t> data) {
    uint32_t xid = client.next_xid();
    Compound call(xid);
    call.putrootfh().lookup("export").lookup(name).write(0, data, true).getattr_size();
    Answer answer;
    CompoundReply reply = compound(client, answer, xid, {}, call.finish());
    check(reply.count() == 5, "the compound ended after " + std::to_string(reply.count()) + " operations with status " +
                                  std::to_string(reply.status()));
    reply.next(Op::putrootfh);
    reply.next(Op::lookup);
    reply.next(Op::lookup);
    check(reply.next(Op::write) == 0, "WRITE failed");
    check(reply.body().u32() == data.size(), "WRITE was short");
    reply.body().skip(12);  // committed, verifier
    return size_from_getattr(reply);
}

void inline_write_with_operations(const ServerOptions& server) {
    Client client(server);
    Bytes handle = client.create("inline-operations");
    Bytes data = setattr_size_operation(3);
    while (data.size() < 40) data.push_back(0);
    uint64_t size = write_inline_then_getattr(client, "inline-operations", data);
    check(size == data.size(), "the file has " + std::to_string(size) + " bytes after the WRITE: its bytes were run");
    check(client.read(handle, 0, 4096) == data, "the file's bytes are wrong");
}

void inline_write_sizes(const ServerOptions& server) {
    Client client(server);
    for (uint32_t size : {1u, 2u, 3u, 4u, 5u, 7u, 8u, 255u, 511u, 700u, 1021u, 2047u, 4090u, 7000u}) {
        std::string name = "inline-" + std::to_string(size);
        Bytes handle = client.create(name);
        Bytes data = pattern(size, size);
        check(write_inline_then_getattr(client, name, data) == size,
              "GETATTR behind an inline WRITE of " + std::to_string(size) + " bytes is wrong");
        check(client.read(handle, 0, 8192) == data,
              "the bytes of an inline WRITE of " + std::to_string(size) + " are wrong");
    }
}

/// The data of a WRITE by a chunk that is shorter than what follows it inline.
void short_chunk(const ServerOptions& server) {
    Client client(server);
    Bytes handle = client.create("short-chunk");
    Bytes data = pattern(1, 12);
    std::memcpy(client.connection().memory().data(), data.data(), data.size());
    uint32_t xid = client.next_xid();
    Compound call(xid);
    call.putrootfh().lookup("export").lookup("short-chunk").write(0, data, false);
    for (int i = 0; i < 8; ++i) call.getattr_size();
    Header header;
    header.reads.push_back({call.data_positions()[0], client.connection().segment(0, 12)});
    Answer answer;
    CompoundReply reply = compound(client, answer, xid, header, call.finish());
    check(reply.count() == 12, "the compound ended after " + std::to_string(reply.count()) + " operations");
    check(client.read(handle, 0, 4096, 1u << 20) == data, "the bytes of a short chunk are wrong");
}

/// Two WRITEs in one compound, each with a chunk of its own, one in segments of odd sizes.
void two_chunks(const ServerOptions& server) {
    Client client(server);
    Bytes handle = client.create("two-chunks");
    Bytes first = pattern(2, 10'001), second = pattern(3, 5'003);
    auto memory = client.connection().memory();
    std::memcpy(memory.data(), first.data(), first.size());
    std::memcpy(memory.data() + 65536, second.data(), second.size());
    uint32_t xid = client.next_xid();
    Compound call(xid);
    call.putrootfh().lookup("export").lookup("two-chunks");
    call.write(0, first, false).write(first.size(), second, false).getattr_size();
    Header header;
    uint32_t at = 0;
    for (uint32_t piece : {1u, 4095u, 4097u, 1808u}) {
        header.reads.push_back({call.data_positions()[0], client.connection().segment(at, piece)});
        at += piece;
    }
    header.reads.push_back({call.data_positions()[1], client.connection().segment(65536, 5'003)});
    Answer answer;
    CompoundReply reply = compound(client, answer, xid, header, call.finish());
    check(reply.count() == 6 && reply.status() == 0, "the compound ended after " + std::to_string(reply.count()) +
                                                         " operations with " + std::to_string(reply.status()));
    Bytes both = first;
    both.insert(both.end(), second.begin(), second.end());
    check(client.read(handle, 0, 65536, 1u << 20) == both, "the bytes of two chunks are wrong");
}

/// The whole call by a chunk at position zero (RFC 8166 section 3.5.3).
void long_call(const ServerOptions& server) {
    Client client(server);
    Bytes handle = client.create("long-call");
    Bytes data = pattern(4, 9'000);
    uint32_t xid = client.next_xid();
    Compound call(xid);
    call.putrootfh().lookup("export").lookup("long-call").write(0, data, true).getattr_size();
    Encoder message = call.finish();
    std::memcpy(client.connection().memory().data(), message.bytes().data(), message.size());
    Header header;
    header.proc = Proc::nomsg;
    header.reads.push_back({0, client.connection().segment(0, static_cast<uint32_t>(message.size()))});
    Answer answer;
    CompoundReply reply = compound(client, answer, xid, header, message);
    check(reply.count() == 5 && reply.status() == 0, "a long call failed");
    check(client.read(handle, 0, 65536, 1u << 20) == data, "the bytes of a long call are wrong");
}

/// A WRITE whose data the server cannot fetch must not happen: the buffer holds the bytes of others.
void write_from_nowhere(const ServerOptions& server) {
    Bytes handle;
    Bytes data = pattern(5, 30'000);
    {
        Client client(server);
        handle = client.create("from-nowhere");
        client.write(handle, 0, data);
        uint32_t xid = client.next_xid();
        Call call = write3(xid, handle, 0, data, false);
        Header header;
        header.reads.push_back({call.data_position, client.connection().segment(0, 30'000)});
        header.reads[0].segment.handle ^= 0x00ffff00;
        client.send(header, call.message);
        check(client.connection().wait_closed(server.patience), "a wrong handle did not end the connection");
    }
    Client other(server);
    check(other.read(handle, 0, 65536) == data, "a WRITE without data changed the file");
}

/// An opaque that claims more than there is.
void opaque_beyond_the_message(const ServerOptions& server) {
    Client client(server);
    for (uint32_t claimed : {64u, 1000u, 4000u, 100'000u}) {
        uint32_t xid = client.next_xid();
        Encoder message = rpc_call(xid, nfs_program, 3, static_cast<uint32_t>(Nfs3::lookup));
        message.opaque(client.root()).u32(claimed);
        for (int i = 0; i < 4; ++i) message.u32(0x61616161);
        Answer answer = client.call({}, message);
        Decoder in(answer.message);
        check(decode_reply(in, xid) == RpcStatus::garbage_args, "a name longer than its message was not refused");
    }
}

/// The length of a WRITE's data is a claim too.
void write_beyond_the_message(const ServerOptions& server) {
    Client client(server);
    Bytes handle = client.create("beyond");
    for (uint32_t claimed : {2000u, 1u << 20, 0x7ffffff0u, 0xfffffff0u}) {
        uint32_t xid = client.next_xid();
        Encoder message = rpc_call(xid, nfs_program, 3, static_cast<uint32_t>(Nfs3::write));
        message.opaque(handle).u64(0).u32(claimed).u32(2).u32(claimed);
        for (int i = 0; i < 100; ++i) message.u32(0x62626262);
        Answer answer = client.call({}, message);
        Decoder in(answer.message);
        check(decode_reply(in, xid) == RpcStatus::garbage_args, "a WRITE longer than its message was not refused");
    }
    check(client.read(handle, 0, 65536).empty(), "a WRITE without its data wrote something");
}

}  // namespace

std::vector<Scenario> call_scenarios() {
    return {
        {"inline-write-with-operations", "bytes of a file are not run as operations", inline_write_with_operations},
        {"inline-write-sizes", "inline WRITEs of 1 byte to 7000, and the GETATTR behind each", inline_write_sizes},
        {"short-chunk", "a chunk goes where its position says, however short", short_chunk},
        {"two-chunks", "two WRITEs in one compound, each with its chunk", two_chunks},
        {"long-call", "the whole call by a chunk at position zero", long_call},
        {"write-from-nowhere", "a WRITE whose data cannot be fetched does not happen", write_from_nowhere, true},
        {"opaque-beyond-the-message", "an opaque longer than its message is refused", opaque_beyond_the_message, true},
        {"write-beyond-the-message", "WRITE data longer than the message is refused before it is allocated",
         write_beyond_the_message, true},
    };
}

}  // namespace rogue
