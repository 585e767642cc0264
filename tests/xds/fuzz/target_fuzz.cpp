// A target and clients that do what an input says: connect, greet, ask, break off, send halves and noise, take answers,
// with faults of the disk and changes of placement between. What must hold: each answer belongs to an unanswered
// request of its connection and is of its sort; data that is read is the file's; in the end nothing is held, and others
// are served.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <thread>

#include "common/fault.h"
#include "tests/xds/client/fixture.h"
#include "tests/xds/fuzz/driver.h"
#include "xds/protocol/codec.h"
#include "xds/security/capability.h"
#include "xds/transport/tcp/tcp_address.h"

namespace fabric::xds::fuzz {
namespace {

constexpr size_t file_size = 300'000;

struct World {
    World() {
        bytes = random_bytes(file_size, 1);
        put(folder.path() + "/f", bytes);
        put(folder.path() + "/w", bytes);
        mkdir((folder.path() + "/d").c_str(), 0777);
        target::Config config;
        config.listen = "127.0.0.1:0";
        config.rdma = target::Rdma::off;
        config.root = folder.path();
        config.node = "fuzz";
        config.lanes = 2;
        config.credits = 8;
        config.open_files = 4;
        config.bytes_in_flight = 16 << 20;
        config.connection_bytes = 8 << 20;
        config.anonymous_uid = geteuid();
        config.anonymous_gid = getegid();
        auto started = target::Target::start(config);
        if (!started.ok()) wrong(started.status().message());
        target = std::move(*started);
        address = "127.0.0.1:" + std::to_string(target->port());
    }
    TemporaryFolder folder;
    std::string bytes, address;
    std::unique_ptr<target::Target> target;
};
World& world() {
    static auto* one = new World;
    return *one;
}

class Client {
  public:
    bool connected() const { return static_cast<bool>(socket_); }
    void connect() {
        *this = {};
        auto made = transport::connect_tcp(world().address, std::chrono::seconds(10));
        if (!made.ok()) wrong("the target does not take a connection: " + made.status().message());
        socket_ = std::move(*made);
    }
    // What is left unread makes it a reset.
    void close(bool orderly) {
        if (orderly && socket_) ::shutdown(socket_.get(), SHUT_WR);
        *this = {};
    }
    void send(const wire::Body& body, Choices& choices, const std::string& data = {}, uint32_t announced = 0) {
        wire::Header header;
        header.request = next_++;
        header.credits = choices.byte() % 8 == 0 ? static_cast<uint16_t>(choices.edge()) : 0;
        header.data_length = data.empty() ? announced : static_cast<uint32_t>(data.size());
        std::vector<std::byte> bytes(wire::max_message);
        auto size = wire::encode(header, body, bytes);
        if (!size.ok()) return;
        std::string message(reinterpret_cast<const char*>(bytes.data()), *size);
        message += data;
        if (header.data_length != data.size()) lawful_ = false;
        wire::Type type = wire::type_of(body);
        if (const auto* read = std::get_if<wire::Read>(&body))
            asked_[header.request] = {type, read->offset, read->handle};
        else if (wire::needs_credit(type) || type == wire::Type::hello)
            asked_[header.request] = {type, 0, 0};
        push(message);
    }
    // Bytes as they are; the rest of the connection is noise to the target.
    void push_noise(const std::string& bytes) {
        lawful_ = false;
        push(bytes);
    }
    // Half of a message, the other half with the next thing that is sent.
    void hold_back(size_t bytes) { hold_ = bytes; }
    void take(int patience_ms) {
        if (!socket_) return;
        pollfd one{socket_.get(), POLLIN, 0};
        if (patience_ms > 0) (void)poll(&one, 1, patience_ms);
        char part[65536];
        for (;;) {
            ssize_t got = ::recv(socket_.get(), part, sizeof part, MSG_DONTWAIT);
            if (got <= 0) break;
            in_.append(part, static_cast<size_t>(got));
        }
        while (take_one()) {
        }
    }

  private:
    struct Asked {
        wire::Type type;
        uint64_t offset;
        uint32_t handle;
    };

    void push(const std::string& bytes) {
        if (!socket_) return;
        out_ += bytes;
        size_t now = out_.size() - std::min(out_.size(), std::exchange(hold_, 0));
        // A target that takes nothing more is one that waits for its answers to be taken.
        for (size_t at = 0; at < now;) {
            ssize_t sent = ::send(socket_.get(), out_.data() + at, now - at, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (sent > 0) {
                at += static_cast<size_t>(sent);
                continue;
            }
            if (errno != EAGAIN) break;
            take(1);
            if (++stalls_ > 200) return close(false);
        }
        out_.erase(0, now);
    }
    bool take_one() {
        if (in_.size() < wire::header_size) return false;
        wire::HeaderBytes head;
        std::memcpy(head.data(), in_.data(), head.size());
        auto header = wire::decode_header(head);
        must(header.ok(), "an answer without a proper header");
        size_t length = wire::header_size + header->body_length;
        if (in_.size() < length + header->data_length) return false;
        wire::Bytes body(reinterpret_cast<const std::byte*>(in_.data()) + wire::header_size, header->body_length);
        auto parsed = wire::decode_body(head, body);
        must(parsed.ok(), "an answer that does not decode");
        answered(*header, *parsed, std::string_view(in_).substr(length, header->data_length));
        in_.erase(0, length + header->data_length);
        return true;
    }
    void answered(const wire::Header& header, const wire::Body& body, std::string_view data) {
        if (header.type == wire::Type::layout_recall || header.type == wire::Type::goodbye ||
            header.type == wire::Type::credit)
            return;
        auto found = asked_.find(header.request);
        if (found == asked_.end()) {
            must(!lawful_, "an answer to what nobody asked, or a second one");
            return;
        }
        Asked asked = found->second;
        asked_.erase(found);
        if (header.type == wire::Type::error) {
            const auto& error = std::get<wire::Error>(body);
            must(error.error > 0 && error.error < 4096, "an error without a number");
            must(data.empty(), "an error with data");
            return;
        }
        must(static_cast<int>(header.type) == static_cast<int>(asked.type) + 1, "an answer of another sort");
        if (const auto* reply = std::get_if<wire::OpenReply>(&body)) opened_.push_back(reply->handle);
        const auto* read = std::get_if<wire::ReadReply>(&body);
        if (read == nullptr) return;
        must(read->length == data.size(), "a read whose lengths do not agree");
        // Only `f` is always the same; both files have its bytes, or others where they were written.
        if (asked.handle == first_of_f_ && first_of_f_ != UINT32_MAX)
            must(data.empty() || (asked.offset <= file_size && data == world().bytes.substr(asked.offset, data.size())),
                 "bytes that are not the file's");
    }

    UniqueFd socket_;
    std::string in_, out_;
    size_t hold_ = 0;
    unsigned stalls_ = 0;
    uint64_t next_ = 1;
    bool lawful_ = true;
    std::map<uint64_t, Asked> asked_;
    std::vector<uint32_t> opened_;

  public:
    // The handle of `f`, opened as the first thing of a connection; UINT32_MAX: none is known to be.
    void open_f(Choices& choices) {
        bool first = opened_.empty() && next_ <= 2;
        send(wire::Open{wire::open_flags::read, 0, "f", {}, {}}, choices);
        for (int i = 0; i < 100 && first && opened_.empty() && socket_; ++i) take(10);
        if (first && !opened_.empty()) first_of_f_ = opened_.front();
    }
    void forget_f() { first_of_f_ = UINT32_MAX; }
    uint32_t handle(Choices& choices) const {
        uint8_t which = choices.byte();
        if (which % 8 == 0 || opened_.empty()) return static_cast<uint32_t>(choices.edge());
        return opened_[which % opened_.size()];
    }

  private:
    uint32_t first_of_f_ = UINT32_MAX;
};

void greet(Client& client, Choices& choices, bool proper) {
    wire::Hello hello;
    hello.nonce = security::random_id();
    hello.time_ns = target::wall_clock_ns();
    std::string ticket;
    if (!proper) {
        hello.version_min = static_cast<uint16_t>(choices.edge());
        hello.version_max = static_cast<uint16_t>(choices.edge());
        hello.max_data = static_cast<uint32_t>(choices.edge());
        if (choices.byte() % 2 == 0) hello.time_ns = choices.edge();
        ticket = choices.bytes(choices.below(200));
        hello.ticket = ticket;
    }
    client.send(hello, choices);
    if (proper) client.take(200);
}

std::string a_path(Choices& choices) {
    static const char* const paths[] = {"f", "w", "d", "d/new", "", "/", "..", "../../etc/passwd", "d/../f", "nothing"};
    uint8_t which = choices.byte();
    if (which < sizeof paths / sizeof paths[0]) return paths[which];
    return choices.bytes(which % 32);
}

void ask_many(Client& client, Choices& choices) {
    std::vector<wire::ManyEntry> entries;
    std::string names = a_path(choices) + a_path(choices) + "f";
    for (uint64_t count = choices.below(12); count > 0; --count) {
        bool good = choices.byte() % 4 != 0;
        wire::ManyEntry entry;
        entry.name_at = good ? static_cast<uint32_t>(names.size() - 1) : static_cast<uint32_t>(choices.edge());
        entry.name_length = good ? 1 : static_cast<uint16_t>(choices.edge());
        entry.length = static_cast<uint32_t>(choices.edge());
        entry.placement = choices.byte() % 4 == 0 ? choices.edge() : 0;
        entries.push_back(entry);
    }
    client.send(wire::ReadMany{choices.byte() % 4u, 0, std::span<const wire::ManyEntry>(entries), names, {}}, choices);
}

// One request, its fields mostly those of a client that means well.
void ask(Client& client, Choices& choices) {
    std::string text;
    switch (choices.below(11)) {
        case 0:
            text = a_path(choices);
            if (auto flags = static_cast<uint32_t>(choices.below(40)); flags > wire::open_flags::read) {
                static const char* const changing[] = {"w", "d/new", "d", ".."};  // `f` stays as it is
                return client.send(wire::Open{flags, 0644, changing[text.size() % 4], {}, {}}, choices);
            }
            return client.send(wire::Open{wire::open_flags::read, 0644, text, {}, {}}, choices);
        case 1: {
            wire::Open open{wire::open_flags::read, 0, {}, {}, {}};
            text = choices.bytes(choices.below(160));
            open.file.handle_type = static_cast<int32_t>(choices.edge());
            open.file.handle = std::string_view(text).substr(0, std::min<size_t>(text.size(), 128));
            open.capability = text;
            return client.send(open, choices);
        }
        case 2:
            client.forget_f();
            return client.send(wire::Close{client.handle(choices)}, choices);
        case 3:
            return client.send(wire::Layout{client.handle(choices), choices.edge()}, choices);
        case 4:
        case 5:
            return client.send(wire::Read{client.handle(choices),
                                          choices.byte() % 4u,
                                          choices.edge(),
                                          choices.edge(),
                                          choices.byte() % 8 == 0 ? choices.edge() : 0,
                                          choices.byte() % 8 == 0 ? 1u : 0u,
                                          {}},
                               choices);
        case 6: {
            uint64_t length = choices.edge() % 70'000;
            bool agree = choices.byte() % 4 != 0;
            wire::Write write{client.handle(choices),
                              choices.byte() % 8u,
                              choices.edge() % 1'000'000,
                              agree ? length : choices.edge(),
                              0,
                              0,
                              static_cast<uint32_t>(choices.edge()),
                              {}};
            return client.send(write, choices, std::string(length, 'w'));
        }
        case 7:
            return client.send(wire::Flush{client.handle(choices), choices.byte() % 2u}, choices);
        case 8:
            text = a_path(choices);
            return client.send(wire::Stat{client.handle(choices), text}, choices);
        case 9:
            return ask_many(client, choices);
        default:
            return client.send(wire::Cancel{choices.edge() % 16}, choices);
    }
}

// What no client that means well sends.
void break_rules(Client& client, Choices& choices) {
    switch (choices.below(6)) {
        case 0:
            return client.push_noise(choices.bytes(choices.below(300)));
        case 1:
            return client.send(wire::ReadReply{}, choices);
        case 2:
            return client.send(wire::RecallDone{choices.edge()}, choices);
        case 3:
            return client.send(wire::Goodbye{wire::Cause::none, "bye"}, choices);
        case 4:  // data that is announced and does not come
            return client.send(wire::Stat{0, "f"}, choices, {}, static_cast<uint32_t>(choices.edge() % 5'000'000));
        default:
            return client.send(wire::Credit{}, choices);
    }
}

void disturb(Choices& choices) {
    static const char* const faults[] = {"",
                                         "backing.read=EIO*1",
                                         "backing.read=short:4096",
                                         "backing.write=ENOSPC*1",
                                         "backing.fsync=EIO*1",
                                         "backing.read=delay:3*2"};
    uint64_t which = choices.below(8);
    if (which < 6)
        must(fault::arm(faults[which]).ok(), "a fault");
    else
        world().target->set_map_epoch(1 + choices.below(4));
}

template <typename Condition>
bool becomes(Condition&& condition) {
    for (auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30); !condition();) {
        if (std::chrono::steady_clock::now() > end) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}

void serves_others() {
    must(fault::arm("").ok(), "faults off");
    must(becomes([] { return world().target->connections() == 0; }), "connections that are gone are still counted");
    must(becomes([] { return world().target->bytes_in_flight() == 0; }), "memory is held for nobody");
    xds_options options{};
    options.size = sizeof options;
    options.address = world().address.c_str();
    xds_ctx* ctx = nullptr;
    xds_file* f = nullptr;
    std::string back(file_size, '#');
    must(xds_ctx_open(&options, &ctx) == 0 && xds_open(ctx, "f", O_RDONLY, 0, &f) == 0, "others are not served");
    must(xds_pread(f, back.data(), back.size(), 0) == static_cast<ssize_t>(file_size) && back == world().bytes,
         "others do not read the file's bytes");
    must(xds_close(f) == 0 && xds_ctx_close(ctx) == 0, "others cannot end");
}

}  // namespace
}  // namespace fabric::xds::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace fabric::xds::fuzz;
    static unsigned inputs = 0;
    Choices choices(data, size);
    Client clients[3];
    for (unsigned step = 0; step < 60 && choices.left(); ++step) {
        uint8_t what = choices.byte();
        Client& client = clients[what % 3];
        if (!client.connected()) {
            client.connect();
            if (what % 16 != 0) greet(client, choices, true);
            if (what % 2 == 0) client.open_f(choices);
            continue;
        }
        switch (what / 3 % 10) {
            case 0:
                greet(client, choices, false);
                break;
            case 1:
                break_rules(client, choices);
                break;
            case 2:
                client.take(static_cast<int>(choices.below(3)));
                break;
            case 3:
                client.hold_back(choices.below(64));
                break;
            case 4:
                if (choices.byte() % 4 == 0) client.close(choices.byte() % 2 == 0);
                break;
            case 5:
                if (choices.byte() % 2 == 0) disturb(choices);
                break;
            default:
                ask(client, choices);
        }
    }
    for (Client& client : clients) {
        client.take(1);
        client.close(true);
    }
    if (++inputs % 32 == 0) serves_others();
    return 0;
}
