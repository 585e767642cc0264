// Malformed RPC-over-RDMA messages: an error to the sender, or nothing, and service to the others.
#include <functional>

#include "tests/rdma/scenario.h"

namespace rogue {
namespace {

/// Sends raw bytes and wants an RPC-over-RDMA error with their xid; then the connection still serves.
void expect_error(Client& client, const Bytes& wire, uint32_t xid, RdmaError error, const std::string& what) {
    check(client.connection().send(wire), what + ": the connection is gone");
    Answer answer = client.receive();
    check(answer.received.header.proc == Proc::error, what + ": not answered by an error");
    check(answer.received.header.xid == xid, what + ": the error names another call");
    check(answer.received.error == error, what + ": the wrong error");
    if (error == RdmaError::vers)
        check(answer.received.lowest == 1 && answer.received.highest == 1, what + ": versions are not 1 to 1");
    client.null();
}

/// Sends raw bytes that must not be answered; a NULL behind them is.
void expect_silence(Client& client, const Bytes& wire) {
    check(client.connection().send(wire), "the connection is gone");
    client.null();
}

/// Words of a message, most of them wrong on purpose.
Bytes words(std::initializer_list<uint32_t> values) {
    Encoder out;
    for (uint32_t value : values) out.u32(value);
    return out.bytes();
}

void chunk_counts(const ServerOptions& server) {
    Client client(server);
    uint32_t xid = 77;
    for (uint32_t count : {2u, 500u, 0x00ffffffu, 0x10000000u, 0x7fffffffu, 0xffffffffu}) {
        expect_error(client, words({++xid, 1, 32, 0, 0, 1, count, 1, 1, 0, 0}), xid, RdmaError::chunk,
                     "a write chunk of " + std::to_string(count) + " segments");
        expect_error(client, words({++xid, 1, 32, 0, 0, 0, 1, count, 1, 1, 0, 0}), xid, RdmaError::chunk,
                     "a reply chunk of " + std::to_string(count) + " segments");
    }
}

void unended_lists(const ServerOptions& server) {
    Client client(server);
    uint32_t xid = 177;
    expect_error(client, words({++xid, 1, 32, 0, 1, 4, 1, 1}), xid, RdmaError::chunk, "a read list cut short");
    expect_error(client, words({++xid, 1, 32, 0, 1, 4, 1, 1, 0, 0}), xid, RdmaError::chunk,
                 "a read list without an end");
    expect_error(client, words({++xid, 1, 32, 0}), xid, RdmaError::chunk, "no lists at all");
    expect_error(client, words({++xid, 1, 32, 0, 0}), xid, RdmaError::chunk, "no write list");
    expect_error(client, words({++xid, 1, 32, 0, 0, 0}), xid, RdmaError::chunk, "no reply chunk");
    expect_error(client, words({++xid, 1, 32, 0, 7, 0, 0, 0}), xid, RdmaError::chunk, "a discriminator of 7");
    expect_error(client, words({++xid, 1, 32, 0, 0, 9, 0, 0}), xid, RdmaError::chunk,
                 "a write list with a discriminator of 9");
    expect_error(client, words({++xid, 1, 32, 0, 0, 0, 3}), xid, RdmaError::chunk,
                 "a reply chunk with a discriminator of 3");
    // as long as a message can be, all of it read list
    Encoder endless;
    endless.u32(++xid).u32(1).u32(32).u32(0);
    while (endless.size() + 24 <= 8192) endless.u32(1).u32(4).u32(1).u32(0).u64(0);
    expect_error(client, endless.bytes(), xid, RdmaError::chunk, "a message that is all read list");
}

void read_list_sizes(const ServerOptions& server) {
    Client client(server, {.memory = 64u << 20});
    Bytes handle = client.create("read-list-sizes");
    Connection& connection = client.connection();
    auto send = [&](uint32_t xid, std::vector<ReadEntry> reads, Proc proc = Proc::msg) {
        Call call = write3(xid, handle, 0, Bytes(1000), false);
        for (ReadEntry& entry : reads)
            if (entry.position == 1) entry.position = call.data_position;
        Header header{.xid = xid, .proc = proc, .reads = reads};
        Bytes wire = header.encode();
        wire.insert(wire.end(), call.message.bytes().begin(), call.message.bytes().end());
        expect_error(client, wire, xid, RdmaError::chunk, "read list number " + std::to_string(xid));
    };
    uint32_t xid = 277;
    send(++xid, {{1, connection.segment(0, (1u << 20) + 4)}});
    send(++xid, {{1, connection.segment(0, 32u << 20)}});
    send(++xid, {{1, connection.segment(0, 0xffffffff)}});
    send(++xid, {{1, connection.segment(0, 0x80000000)}, {1, connection.segment(0, 0x80000000)}});
    send(++xid, {{1, connection.segment(0, 1u << 20)}, {1, connection.segment(0, 1)}});
    send(++xid, {{4096, connection.segment(0, 1000)}});  // behind the end of the message
    send(++xid, {{0xfffffffc, connection.segment(0, 1000)}});
    send(++xid, {{6, connection.segment(0, 1000)}});  // not a place for an item
    send(++xid, {{80, connection.segment(0, 1000)}, {40, connection.segment(0, 1000)}});
    send(++xid, {{0, connection.segment(0, 1000)}});  // the call is inline and elsewhere
    send(++xid, {}, Proc::nomsg);                     // the call is nowhere
    send(++xid, {{1, connection.segment(0, 1000)}}, Proc::nomsg);
}

void short_messages(const ServerOptions& server) {
    Client client(server);
    for (size_t size : {0u, 1u, 3u, 4u, 8u, 12u, 15u}) expect_silence(client, Bytes(size, 1));
    // a header without a call, a call without a program
    expect_silence(client, words({5, 1, 32, 0, 0, 0, 0}));
    expect_silence(client, words({5, 1, 32, 0, 0, 0, 0, 5}));
    expect_silence(client, words({5, 1, 32, 0, 0, 0, 0, 5, 0, 2}));
}

void versions(const ServerOptions& server) {
    Client client(server);
    uint32_t xid = 377;
    for (uint32_t version : {0u, 2u, 3u, 0xffffffffu})
        expect_error(client, words({++xid, version, 32, 0, 0, 0, 0}), xid, RdmaError::vers,
                     "version " + std::to_string(version));
}

void message_types(const ServerOptions& server) {
    Client client(server);
    uint32_t xid = 477;
    expect_silence(client, words({++xid, 1, 32, 3, 0, 0, 0}));  // RDMA_DONE
    expect_silence(client, words({++xid, 1, 32, 4, 1, 1, 1}));  // RDMA_ERROR: an error is never answered
    expect_silence(client, words({++xid, 1, 32, 4, 2}));
    for (uint32_t type : {2u, 5u, 17u, 0xffffffffu})
        expect_error(client, words({++xid, 1, 32, type, 0, 0, 0}), xid, RdmaError::chunk,
                     "type " + std::to_string(type));
}

/// RPC messages that are no calls.
void not_a_call(const ServerOptions& server) {
    Client client(server);
    expect_silence(client, words({6, 1, 32, 0, 0, 0, 0, 6, 1, 0, 0, 0, 0}));  // a reply to nothing
    expect_silence(client, words({6, 1, 32, 0, 0, 0, 0, 6, 1, 1, 1, 0}));
    expect_silence(client, words({6, 1, 32, 0, 0, 0, 0, 6, 2, 0, 0, 0, 0}));  // neither
    uint32_t xid = client.next_xid();
    Answer answer = client.call({}, rpc_call(xid, nfs_program, 3, 99));
    Decoder in(answer.message);
    check(decode_reply(in, xid) == RpcStatus::other, "an unknown procedure was not refused");
    xid = client.next_xid();
    answer = client.call({}, rpc_call(xid, 400'000, 3, 0));
    Decoder program(answer.message);
    check(decode_reply(program, xid) == RpcStatus::other, "an unknown program was not refused");
}

}  // namespace

std::vector<Scenario> header_scenarios() {
    return {
        {"chunk-counts", "segment counts are bounded by the message", chunk_counts, true},
        {"unended-lists", "lists must end within the message", unended_lists, true},
        {"read-list-sizes", "lengths, positions and order of the read list are checked", read_list_sizes, true},
        {"short-messages", "messages too short to answer are dropped", short_messages, true},
        {"versions", "other versions are answered by ERR_VERS", versions, true},
        {"message-types", "reserved, unknown and error messages", message_types, true},
        {"not-a-call", "RPC replies and unknown procedures", not_a_call, true},
    };
}

}  // namespace rogue
