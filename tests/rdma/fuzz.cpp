#include "tests/rdma/fuzz.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <random>

namespace rogue {
namespace {

using Random = std::mt19937;

constexpr uint32_t mebibyte = 1u << 20;
constexpr int burst = 40;  // messages to a burst

struct Sample {
    Header header;
    Encoder message;
};

uint32_t pick(Random& random, uint32_t limit) { return static_cast<uint32_t>(random() % limit); }

/// Values that bounds checks get wrong.
uint32_t edge(Random& random) {
    static constexpr uint32_t edges[] = {0,
                                         1,
                                         2,
                                         3,
                                         4,
                                         5,
                                         7,
                                         8,
                                         28,
                                         255,
                                         1000,
                                         1023,
                                         1024,
                                         4095,
                                         4096,
                                         8191,
                                         8192,
                                         65535,
                                         65536,
                                         mebibyte - 1,
                                         mebibyte,
                                         mebibyte + 1,
                                         mebibyte + 8192,
                                         0x00ffffff,
                                         0x0fffffff,
                                         0x10000000,
                                         0x7fffffff,
                                         0x80000000,
                                         0xfffffff0,
                                         0xfffffffc,
                                         0xffffffff};
    return edges[pick(random, std::size(edges))];
}

/// Valid calls with every use of chunks, to mutate.
std::vector<Sample> corpus(Client& client, const Bytes& handle) {
    Connection& connection = client.connection();
    std::vector<Sample> samples;
    auto add = [&](Header header, Encoder message) { samples.push_back({std::move(header), std::move(message)}); };
    auto xid = [&] { return client.next_xid(); };
    add({}, null_call(xid()).message);
    add({}, read3(xid(), handle, 0, 100).message);
    add({.writes = {{connection.segment(0, 65536)}}}, read3(xid(), handle, 0, 65536).message);
    add({.writes = {{connection.segment(0, 1000), connection.segment(4096, 64536)}}},
        read3(xid(), handle, 0, 65536).message);
    add({.reply = Chunk{connection.segment(0, mebibyte + 4096)}}, read3(xid(), handle, 0, mebibyte).message);
    add({.reply = Chunk{connection.segment(0, 65536)}}, readdir3(xid(), client.root(), 60000).message);
    add({}, write3(xid(), handle, 0, pattern(1, 200), true).message);
    Call write = write3(xid(), handle, 0, Bytes(70'001), false);
    add({.reads = {{write.data_position, connection.segment(0, 1000)},
                   {write.data_position, connection.segment(8192, 69'001)}}},
        write.message);
    Compound reads(xid());
    reads.putrootfh().lookup("export").lookup("fuzz").read(0, 5000).read(5000, 7001).getattr_size();
    add({.writes = {{connection.segment(0, 5000)}, {connection.segment(8192, 8000)}}}, reads.finish());
    Compound writes(xid());
    writes.putrootfh()
        .lookup("export")
        .lookup("fuzz")
        .write(0, Bytes(501), false)
        .write(600, Bytes(3), false)
        .getattr_size();
    add({.reads = {{writes.data_positions()[0], connection.segment(0, 501)},
                   {writes.data_positions()[1], connection.segment(600, 3)}}},
        writes.finish());
    Encoder whole = reads.finish();
    std::memcpy(connection.memory().data() + 12 * mebibyte, whole.bytes().data(), whole.size());
    add({.proc = Proc::nomsg,
         .reads = {{0, connection.segment(12 * mebibyte, static_cast<uint32_t>(whole.size()))}},
         .reply = Chunk{connection.segment(0, 65536)}},
        whole);
    return samples;
}

void mutate_segment(Random& random, Segment& segment) {
    switch (pick(random, 4)) {
        case 0:
            segment.length = edge(random);
            break;
        case 1:
            segment.handle ^= 1u << pick(random, 32);
            break;
        case 2:
            segment.address += edge(random);
            break;
        default:
            segment.length += pick(random, 9) - 4;
            break;
    }
}

/// Changes the lists as lists: what a header still says in good form.
void mutate_lists(Random& random, Header& header, Connection& connection) {
    auto any_segment = [&] { return connection.segment(pick(random, mebibyte), edge(random) % (2 * mebibyte)); };
    switch (pick(random, 8)) {
        case 0:
            header.reads.insert(header.reads.begin(), {edge(random), any_segment()});
            break;
        case 1:
            header.writes.push_back(Chunk(pick(random, 20), any_segment()));
            break;
        case 2:
            header.reply = Chunk(pick(random, 20), any_segment());
            break;
        case 3:
            if (!header.reads.empty())
                header.reads[pick(random, static_cast<uint32_t>(header.reads.size()))].position = edge(random);
            break;
        case 4:
            if (!header.reads.empty())
                mutate_segment(random, header.reads[pick(random, static_cast<uint32_t>(header.reads.size()))].segment);
            break;
        case 5:
            for (Chunk& chunk : header.writes)
                for (Segment& segment : chunk)
                    if (pick(random, 2)) mutate_segment(random, segment);
            break;
        case 6:
            header.proc = header.proc == Proc::msg ? Proc::nomsg : Proc::msg;
            break;
        default:
            header.reply.reset();
            header.writes.clear();
            break;
    }
}

/// Changes the message as bytes.
void mutate_bytes(Random& random, Bytes& wire) {
    for (uint32_t n = 1 + pick(random, 3); n && !wire.empty(); --n) {
        size_t at = pick(random, static_cast<uint32_t>(wire.size()));
        switch (pick(random, 5)) {
            case 0:
                wire[at] ^= static_cast<uint8_t>(1u << pick(random, 8));
                break;
            case 1:
                at &= ~size_t{3};
                if (at + 4 <= wire.size()) {
                    Bytes word = Encoder().u32(edge(random)).bytes();
                    std::ranges::copy(word, wire.begin() + static_cast<std::ptrdiff_t>(at));
                }
                break;
            case 2:
                wire.resize(at);
                break;
            case 3:
                wire.resize(std::min<size_t>(wire.size() + pick(random, 4000), 8192), 0x5a);
                break;
            default:
                wire.erase(wire.begin() + static_cast<std::ptrdiff_t>(at));
                break;
        }
    }
}

Bytes mutant(Random& random, const Sample& sample, Connection& connection, uint32_t xid) {
    Header header = sample.header;
    header.xid = xid;
    for (uint32_t n = pick(random, 3); n; --n) mutate_lists(random, header, connection);
    Bytes wire = header.encode();
    if (header.proc != Proc::nomsg)
        wire.insert(wire.end(), sample.message.bytes().begin(), sample.message.bytes().end());
    if (pick(random, 4)) mutate_bytes(random, wire);
    if (wire.size() > 8192) wire.resize(8192);
    return wire;
}

void send_burst(const ServerOptions& server, Random& random, const Bytes& handle) {
    auto fresh = [&] { return std::make_unique<Client>(server, ConnectionOptions{.memory = 16u << 20}); };
    auto client = fresh();
    std::vector<Sample> samples = corpus(*client, handle);
    for (int i = 0; i < burst; ++i) {
        if (client->connection().closed()) {
            client = fresh();
            samples = corpus(*client, handle);
        }
        const Sample& sample = samples[pick(random, static_cast<uint32_t>(samples.size()))];
        client->connection().send(mutant(random, sample, client->connection(), client->next_xid()));
        if (pick(random, 3) == 0) client->connection().receive(milliseconds(20));
    }
}

}  // namespace

void fuzz(const ServerOptions& server, uint32_t seed, int seconds) {
    auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    Client stage(server);
    Bytes handle = stage.create("fuzz");
    uint32_t bursts = 0;
    for (uint32_t now = seed; std::chrono::steady_clock::now() < deadline; ++now, ++bursts) {
        Random random(now);
        try {
            send_burst(server, random, handle);
            check_alive(server);
        } catch (const Failure& failure) {
            throw Failure("after the burst of seed " + std::to_string(now) + ": " + failure.what());
        }
    }
    std::printf("fuzz: %u bursts of %d messages, seeds %u to %u\n", bursts, burst, seed, seed + bursts - 1);
}

}  // namespace rogue
