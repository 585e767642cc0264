#include "tests/rdma/client.h"

#include <atomic>
#include <cstring>

namespace rogue {
namespace {

std::atomic<uint32_t> first_xid{0x10000000};  // connections of one process do not share xids

Bytes gather(std::span<uint8_t> memory, uint64_t base, const Chunk& chunk) {
    Bytes result;
    for (const Segment& segment : chunk) {
        check(segment.address >= base && segment.address - base + segment.length <= memory.size(),
              "a chunk of the reply is not in our memory");
        auto start = memory.begin() + static_cast<std::ptrdiff_t>(segment.address - base);
        result.insert(result.end(), start, start + segment.length);
    }
    return result;
}

}  // namespace

Client::Client(const ServerOptions& server, const ConnectionOptions& options)
    : server_(server),
      connection_(server.rdma, options),
      root_(mount_export(server.rdma.address, server.mount_port, server.path)),
      xid_(first_xid.fetch_add(0x100000)) {}

void Client::send(Header header, const Encoder& message) {
    header.xid = Decoder(message.bytes()).u32();
    Bytes wire = header.encode();
    if (header.proc == Proc::msg) wire.insert(wire.end(), message.bytes().begin(), message.bytes().end());
    check(connection_.send(wire), "the server ended the connection");
}

Answer Client::receive() {
    auto message = connection_.receive(server_.patience);
    check(message.has_value(), connection_.closed() ? "the server ended the connection" : "no answer");
    Answer answer{decode_message(*message), {}};
    answer.message = answer.received.body;
    if (answer.received.header.proc == Proc::nomsg) {
        check(answer.received.header.reply.has_value(), "RDMA_NOMSG without a reply chunk");
        answer.message = gather(connection_.memory(), connection_.address(0), *answer.received.header.reply);
    }
    return answer;
}

Answer Client::call(Header header, const Encoder& message) {
    send(header, message);
    Answer answer = receive();
    check(answer.received.header.xid == Decoder(message.bytes()).u32(), "the answer is to another call");
    return answer;
}

Bytes Client::create(std::string_view name) {
    uint32_t xid = next_xid();
    Answer answer = call({}, create3(xid, root_, name).message);
    Decoder in(answer.message);
    check(decode_reply(in, xid) == RpcStatus::success, "CREATE was refused");
    uint32_t status = in.u32();
    check(status == 0, "CREATE answered " + std::to_string(status));
    check(in.u32() == 1, "CREATE returned no handle");
    return in.opaque();
}

void Client::write(std::span<const uint8_t> handle, uint64_t offset, std::span<const uint8_t> data, size_t at) {
    std::memcpy(connection_.memory().data() + at, data.data(), data.size());
    uint32_t xid = next_xid();
    Call request = write3(xid, handle, offset, data, false);
    Header header;
    header.reads.push_back({request.data_position, connection_.segment(at, static_cast<uint32_t>(data.size()))});
    Answer answer = call(header, request.message);
    Decoder in(answer.message);
    check(decode_reply(in, xid) == RpcStatus::success, "WRITE was refused");
    check(decode_write3_count(in) == data.size(), "WRITE was short");
}

Bytes Client::read(std::span<const uint8_t> handle, uint64_t offset, uint32_t count, size_t at) {
    uint32_t xid = next_xid();
    Header header;
    header.writes.push_back({connection_.segment(at, count)});
    Answer answer = call(header, read3(xid, handle, offset, count).message);
    check(answer.received.header.proc == Proc::msg, "READ was not answered by RDMA_MSG");
    Decoder in(answer.message);
    check(decode_reply(in, xid) == RpcStatus::success, "READ was refused");
    Read3Result result = decode_read3(in, true);
    check(result.status == 0, "READ answered " + std::to_string(result.status));
    check(answer.received.header.writes.size() == 1, "READ returned another number of write chunks");
    check(length_of(answer.received.header.writes[0]) == result.count, "READ: the chunk's length is not the count");
    auto start = connection_.memory().begin() + static_cast<std::ptrdiff_t>(at);
    return Bytes(start, start + result.count);
}

void Client::null() {
    uint32_t xid = next_xid();
    Answer answer = call({}, null_call(xid).message);
    Decoder in(answer.message);
    check(decode_reply(in, xid) == RpcStatus::success && in.left() == 0, "NULL was not answered right");
}

Bytes pattern(uint32_t seed, size_t size) {
    Bytes data(size);
    uint64_t state = seed * 0x9e3779b97f4a7c15ull + 1;
    for (size_t i = 0; i < size; i += 8) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        std::memcpy(data.data() + i, &state, std::min<size_t>(8, size - i));
    }
    return data;
}

void check_alive(const ServerOptions& server) {
    Client client(server);
    client.null();
    Bytes handle = client.create("alive");
    Bytes data = pattern(4711, 20'000);
    client.write(handle, 0, data);
    check(client.read(handle, 0, 20'000, 1u << 20) == data, "another client reads wrong bytes");
}

}  // namespace rogue
