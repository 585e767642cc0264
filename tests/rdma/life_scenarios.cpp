// Connections that come and go, what they leave behind, and how much goes on at once on one of them.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <thread>

#include "tests/rdma/scenario.h"

namespace rogue {
namespace {

constexpr uint32_t mebibyte = 1u << 20;

/// Pinned (registered) memory of the server, in bytes: VmPin of proc(5).
uint64_t pinned(const ServerOptions& server) {
    check(server.pid > 0, "this scenario needs --pid");
    std::ifstream status("/proc/" + std::to_string(server.pid) + "/status");
    std::string line;
    while (std::getline(status, line))
        if (line.starts_with("VmPin:")) return std::stoull(line.substr(6)) * 1024;
    throw Failure("the server is gone");
}

/// Waits until the server has no more pinned than `limit`: less long than the connection manager waits for a peer that
/// is gone. Polls, since a release gives no sign.
void await_unpinned(const ServerOptions& server, uint64_t limit, const std::string& what) {
    auto deadline = std::chrono::steady_clock::now() + milliseconds(20'000);
    uint64_t now = pinned(server);
    while (now > limit && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(milliseconds(50));
        now = pinned(server);
    }
    check(now <= limit, what + ": " + std::to_string(now >> 20) + " MiB stay pinned, " + std::to_string(limit >> 20) +
                            " were before");
}

void reconnects(const ServerOptions& server) {
    uint64_t before = pinned(server);
    for (int i = 0; i < 20; ++i) {
        Client client(server);
        client.null();
        client.connection().disconnect();
    }
    await_unpinned(server, before, "20 connections that were ended in order");
}

/// Connections that go away while the server reads from them, writes to them and answers them.
void abrupt_ends(const ServerOptions& server) {
    Bytes handle;
    {
        Client client(server);
        handle = client.create("abrupt");
        client.write(handle, 0, pattern(1, mebibyte));
    }
    await_unpinned(server, 0, "a connection that was ended in order");
    for (int i = 0; i < 24; ++i) {
        Client client(server, {.memory = 32u << 20});
        for (uint32_t n = 0; n < 16; ++n) {
            uint32_t xid = client.next_xid();
            Header header;
            if ((n + static_cast<uint32_t>(i)) % 2) {
                header.writes.push_back({client.connection().segment(n * mebibyte, mebibyte)});
                client.send(header, read3(xid, handle, 0, mebibyte).message);
            } else {
                Call call = write3(xid, handle, 0, Bytes(mebibyte), false);
                header.reads.push_back({call.data_position, client.connection().segment(n * mebibyte, mebibyte)});
                client.send(header, call.message);
            }
        }
        if (i % 3 == 0) client.connection().receive(milliseconds(1000));  // some of it has happened
        if (i % 4 == 1) client.connection().break_queue_pair();
        if (i % 4 == 2) client.connection().disconnect();
    }
    await_unpinned(server, 0, "24 connections that went away in mid-transfer");
}

/// Connections that never say a word, and ones that end right after the first.
void silent_connections(const ServerOptions& server) {
    await_unpinned(server, 0, "the connections before");
    for (int i = 0; i < 20; ++i) {
        Connection connection(server.rdma);
        if (i % 2) connection.send(Bytes(20, 0));
        if (i % 3) connection.break_queue_pair();
    }
    await_unpinned(server, 0, "20 silent connections");
}

/// Peers that are gone before their connection is made: the server's threads go on for all others.
void given_up_connections(const ServerOptions& server) {
    for (int i = 0; i < 40; ++i) {
        Connection given_up(server.rdma, {.memory = 4096, .receives = 4, .give_up = true});
        if (i % 2) std::this_thread::sleep_for(milliseconds(2));
    }
    await_unpinned(server, 0, "40 connections that were given up");
    Client client(server);
    Bytes handle = client.create("given-up"), data = pattern(3, 100'000);
    client.write(handle, 0, data);
    check(client.read(handle, 0, 100'000) == data, "other bytes after connections that were given up");
}

/// Many READs in flight, of different bytes: each gets its own. With an FSAL that answers later, a request waits
/// suspended.
void reads_in_flight(const ServerOptions& server) {
    constexpr uint32_t files = 16, size = 65536, depth = 64, total = 2000;
    Client client(server, {.memory = (depth + 1) * size});
    std::vector<Bytes> handles, contents;
    for (uint32_t i = 0; i < files; ++i) {
        handles.push_back(client.create("in-flight-" + std::to_string(i)));
        contents.push_back(pattern(100 + i, size));
        client.write(handles[i], 0, contents[i], depth * size);
    }
    struct Pending {
        uint32_t file, slot;
    };
    std::map<uint32_t, Pending> pending;
    uint32_t sent = 0;
    auto send = [&](uint32_t slot) {
        uint32_t xid = client.next_xid(), file = (sent * 7) % files;
        Header header;
        header.writes.push_back({client.connection().segment(slot * size, size)});
        client.send(header, read3(xid, handles[file], 0, size).message);
        pending[xid] = {file, slot};
        ++sent;
    };
    for (uint32_t slot = 0; slot < depth; ++slot) send(slot);
    while (!pending.empty()) {
        Answer answer = client.receive();
        auto found = pending.find(answer.received.header.xid);
        check(found != pending.end(), "an answer to no call");
        Pending done = found->second;
        pending.erase(found);
        Decoder in(answer.message);
        check(decode_reply(in, answer.received.header.xid) == RpcStatus::success, "READ was refused");
        check(decode_read3(in, true).count == size, "READ was short");
        auto got = client.connection().memory().subspan(done.slot * size, size);
        check(std::ranges::equal(got, contents[done.file]), "READ returned bytes of another");
        if (sent < total) send(done.slot);
    }
}

/// WRITEs in flight, each with a chunk of its own; the files hold what was sent.
void writes_in_flight(const ServerOptions& server) {
    constexpr uint32_t files = 48, size = 30'011;
    Client client(server, {.memory = (files + 1) * 65536});
    std::vector<Bytes> handles;
    for (uint32_t i = 0; i < files; ++i) handles.push_back(client.create("write-flight-" + std::to_string(i)));
    for (uint32_t i = 0; i < files; ++i) {
        Bytes data = pattern(200 + i, size);
        std::ranges::copy(data, client.connection().memory().begin() + i * 65536);
        Call call = write3(client.next_xid(), handles[i], 0, data, false);
        Header header;
        header.reads.push_back({call.data_position, client.connection().segment(i * 65536, size)});
        client.send(header, call.message);
    }
    for (uint32_t i = 0; i < files; ++i) {
        Answer answer = client.receive();
        Decoder in(answer.message);
        check(decode_reply(in, answer.received.header.xid) == RpcStatus::success && decode_write3_count(in) == size,
              "WRITE was short");
    }
    for (uint32_t i = 0; i < files; ++i)
        check(client.read(handles[i], 0, 65536, files * 65536) == pattern(200 + i, size),
              "a WRITE has bytes of another");
}

/// RDMA READs at once: the server takes what we offer, up to what the device can.
void read_depth(const ServerOptions& server) {
    for (uint8_t offered : {uint8_t{1}, uint8_t{4}, uint8_t{16}}) {
        Client client(server, {.reads = offered});
        unsigned granted = client.connection().granted_initiator_depth();
        check(granted == offered, "the server sends " + std::to_string(granted) + " RDMA READs at once where " +
                                      std::to_string(offered) + " were offered");
        client.null();
    }
}

/// 64 calls are granted, and 64 may be in flight.
void credits(const ServerOptions& server) {
    Client client(server);
    uint32_t xid = client.next_xid();
    Answer answer = client.call({}, null_call(xid).message);
    uint32_t granted = answer.received.header.credits;
    check(granted >= 64, "the server grants " + std::to_string(granted) + " credits, not 64");
    for (uint32_t i = 0; i < granted; ++i) client.send({}, null_call(client.next_xid()).message);
    for (uint32_t i = 0; i < granted; ++i) client.receive();
}

/// A client that sends far more calls than it was granted waits; the server does not grow with it.
void more_than_granted(const ServerOptions& server) {
    constexpr uint32_t calls = 1200;
    Client client(server, {.memory = 2 * mebibyte, .receives = 256});
    Bytes handle = client.create("granted");
    client.write(handle, 0, pattern(2, mebibyte));
    uint64_t before = pinned(server), most = 0;
    uint32_t answered = 0;
    auto take = [&](milliseconds patience) {
        while (auto message = client.connection().receive(patience)) {
            ++answered;
            patience = milliseconds(0);
        }
    };
    for (uint32_t i = 0; i < calls; ++i) {
        Header header;
        header.writes.push_back({client.connection().segment(0, mebibyte)});
        client.send(header, read3(client.next_xid(), handle, 0, mebibyte).message);
        take(milliseconds(0));
        if (i % 50 == 0) most = std::max(most, pinned(server));
    }
    while (answered < calls && !client.connection().closed()) {
        uint32_t had = answered;
        take(server.patience);
        check(answered > had, "calls beyond the grant are never answered");
        most = std::max(most, pinned(server));
    }
    check(answered == calls, "the server ended the connection after " + std::to_string(answered) + " answers");
    // As many replies may wait for their completions as there are contexts: three for each of 64 credits.
    check(most <= before + 200u * mebibyte, "the server pinned " + std::to_string((most - before) >> 20) +
                                                " MiB for one client that sends more than it may");
}

/// Opens connections that answer a NULL call until one is refused, `most` at the most; returns them.
std::vector<std::unique_ptr<Client>> open_until_refused(const ServerOptions& server, size_t most) {
    std::vector<std::unique_ptr<Client>> open;
    while (open.size() < most) {
        std::unique_ptr<Client> client;
        try {
            client = std::make_unique<Client>(server, ConnectionOptions{.memory = mebibyte, .receives = 16});
        } catch (const Failure&) {
            break;  // refused, and said so: what a limit is for
        }
        client->null();
        open.push_back(std::move(client));
    }
    return open;
}

/// The server is limited (to 8 connections, or by what its device has): it refuses what is more, and those that it has
/// go on.
void too_many_connections(const ServerOptions& server) {
    constexpr size_t many = 16;
    for (int round = 0; round < 2; ++round) {
        auto open = open_until_refused(server, many);
        check(open.size() >= 2, "only " + std::to_string(open.size()) + " connections were accepted");
        check(open.size() < many, std::to_string(many) + " connections were accepted");
        for (auto& client : open) client->null();
        for (auto& client : open) client->connection().disconnect();
        open.clear();
        await_unpinned(server, 0, "refused and closed connections");
    }
}

using Object = std::map<std::string, std::string>;

/// Objects of the server, as the kernel tells root (rdma-resource(8)); no other program here has any.
std::vector<Object> objects_of_server(const std::string& kind) {
    std::unique_ptr<FILE, int (*)(FILE*)> tool(popen(("rdma -d resource show " + kind).c_str(), "r"), pclose);
    check(tool != nullptr, "rdma (iproute2) is not there");
    std::vector<Object> objects;
    char line[1024];
    while (std::fgets(line, sizeof line, tool.get())) {
        std::istringstream words(line);
        std::string word;
        Object object;
        while (words >> word)
            if (word == "rkey" || word == "lkey" || word == "mrlen" || word == "pid") words >> object[word];
        // What the kernel calls pid is the thread that made the object, and the server's may be gone by now; the
        // kernel's own objects have none. So: all but ours.
        if (object["pid"].empty() || std::filesystem::exists("/proc/self/task/" + object["pid"])) continue;
        objects.push_back(object);
    }
    return objects;
}

struct Region {
    uint64_t length;
    uint32_t rkey, lkey;
};

std::vector<Region> regions_of_server() {
    std::vector<Region> regions;
    for (Object& object : objects_of_server("mr")) {
        auto key = [&](const char* name) {
            return static_cast<uint32_t>(std::strtoul(object[name].c_str(), nullptr, 0));
        };
        regions.push_back({std::strtoull(object["mrlen"].c_str(), nullptr, 0), key("rkey"), key("lkey")});
    }
    return regions;
}

/// Where a region of this length may start in the server: large blocks of memory have a mapping of their own.
std::vector<uint64_t> places_of(int pid, uint64_t length) {
    std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
    std::vector<uint64_t> places;
    std::string line;
    while (std::getline(maps, line)) {
        char* rest = nullptr;
        uint64_t from = std::strtoull(line.c_str(), &rest, 16), to = std::strtoull(rest + 1, nullptr, 16);
        if (to - from < length || to - from > length + 64 * mebibyte) continue;
        places.push_back(from + 4096);
        places.push_back(to - length);
    }
    return places;
}

/// Connections that end in two ways at once, since the server's queue pair fails and the client disconnects: the events
/// of one that is gone already are of no harm to the others.
void double_ends(const ServerOptions& server) {
    for (int i = 0; i < 100; ++i) {
        Connection intruder(server.rdma, {.memory = 4096, .receives = 4});
        check(!intruder.read_peer(0x1000, 0x00ffff00, 16, milliseconds(5000)), "the server lets a wrong key in");
    }
}

/// A peer that learned the keys of the server's buffers (here from the kernel) still does not get in.
void no_way_in(const ServerOptions& server) {
    check(server.pid > 0, "this scenario needs --pid");
    Client victim(server);
    victim.null();
    auto regions = regions_of_server();
    check(!regions.empty(), "the kernel shows no memory region of the server");
    uint32_t tries = 0;
    for (const Region& region : regions) {
        for (uint64_t place : places_of(server.pid, region.length)) {
            for (uint32_t key : {region.rkey, region.lkey}) {
                if (++tries > 40) return;
                Connection intruder(server.rdma, {.memory = mebibyte, .receives = 4});
                check(!intruder.read_peer(place, key, 4096, milliseconds(5000)),
                      "a peer reads the server's memory with key " + std::to_string(key));
            }
        }
    }
    check(tries > 0, "no place was tried");
    victim.null();
}

/// Clients whose WRITEs the server has, and whose data it does not get, until its device gives up on them. The server's
/// workers are fewer than these calls: others are served meanwhile all the same.
void withheld_data(const ServerOptions& server) {
    constexpr size_t deaf = 3, calls = 32;
    Client other(server);
    Bytes handle = other.create("withheld");
    size_t before = objects_of_server("qp").size();
    std::vector<std::unique_ptr<Client>> clients;
    for (size_t i = 0; i < deaf; ++i) {
        clients.push_back(std::make_unique<Client>(server, ConnectionOptions{.memory = mebibyte}));
        Client& client = *clients.back();
        for (size_t n = 0; n < calls; ++n) {
            Call call = write3(client.next_xid(), handle, 0, Bytes(mebibyte), false);
            Header header;
            header.reads.push_back({call.data_position, client.connection().segment(0, mebibyte)});
            client.send(header, call.message);
        }
        check(client.connection().await_sent(server.patience), "the server does not take its calls");
        client.connection().break_queue_pair();
    }
    other.null();
    check(objects_of_server("qp").size() == before + deaf,
          "another client was served only after those that stay silent");
    Bytes data = pattern(6, 40'000);
    Bytes file = other.create("not-withheld");
    other.write(file, 0, data);
    check(other.read(file, 0, 65536, 1u << 20) == data, "another client reads wrong bytes");
    clients.clear();
}

}  // namespace

std::vector<Scenario> life_scenarios() {
    return {
        {"reconnects", "a connection that ends gives its memory back", reconnects},
        {"abrupt-ends", "connections that go away in mid-transfer leave nothing behind", abrupt_ends, true},
        {"silent-connections", "connections that never call", silent_connections, true},
        {"given-up-connections", "connections whose peer is gone before they are made", given_up_connections, true},
        {"reads-in-flight", "64 READs at once, each with its own bytes", reads_in_flight},
        {"writes-in-flight", "48 WRITEs at once, each with its own bytes", writes_in_flight},
        {"read-depth", "several RDMA READs at once, as offered", read_depth},
        {"credits", "64 calls granted and in flight", credits},
        {"more-than-granted", "a client beyond its grant waits", more_than_granted, true},
        {"too-many-connections", "what is over the limit is refused, the others go on", too_many_connections, true},
        {"double-ends", "connections that fail and are closed at once", double_ends, true},
        {"withheld-data", "clients that do not give their data hold up nobody else", withheld_data, true},
        {"no-way-in", "no peer reaches the server's memory, even by its keys", no_way_in, true},
    };
}

std::vector<Scenario> all_scenarios() {
    std::vector<Scenario> all;
    for (auto part : {call_scenarios, header_scenarios, reply_scenarios, life_scenarios}) {
        auto scenarios = part();
        all.insert(all.end(), scenarios.begin(), scenarios.end());
    }
    return all;
}

}  // namespace rogue
