// A client of a server that answers as an input says: properly, wrongly, by halves, too much, or not at all. What must
// hold: each call ends, in bounded time, by an error or a plausible result, and touches no byte outside of its memory.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>

#include "tests/xds/client/fixture.h"
#include "tests/xds/fuzz/driver.h"
#include "xds/protocol/codec.h"
#include "xds/transport/tcp/tcp_address.h"

namespace fabric::xds::fuzz {
namespace {

constexpr size_t most_answers = 200;

class Server {
  public:
    Server(const uint8_t* data, size_t size) : choices_(data, size) {
        auto made = transport::listen_tcp("127.0.0.1:0");
        if (!made.ok()) wrong(made.status().message());
        listener_ = std::move(*made);
        address_ = "127.0.0.1:" + std::to_string(*transport::port_of(listener_.get()));
        thread_ = std::thread([this] { serve(); });
    }
    ~Server() {
        ending_ = true;
        thread_.join();
    }
    const std::string& address() const { return address_; }

  private:
    struct Peer {
        UniqueFd socket;
        std::string in;
    };

    void serve() {
        std::vector<Peer> peers;
        while (!ending_) {
            std::vector<pollfd> wait{{listener_.get(), POLLIN, 0}};
            for (const Peer& peer : peers) wait.push_back({peer.socket.get(), POLLIN, 0});
            (void)poll(wait.data(), wait.size(), 5);
            for (Peer& peer : peers)
                if (!take(peer)) peer.socket.reset();
            std::erase_if(peers, [](const Peer& peer) { return !peer.socket; });
            if ((wait[0].revents & POLLIN) == 0) continue;
            peers.push_back({UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)), {}});
        }
    }
    // False: the connection is to end.
    bool take(Peer& peer) {
        char part[65536];
        for (;;) {
            ssize_t got = ::recv(peer.socket.get(), part, sizeof part, MSG_DONTWAIT);
            if (got == 0 || (got < 0 && errno != EAGAIN)) return false;
            if (got < 0) break;
            peer.in.append(part, static_cast<size_t>(got));
        }
        while (peer.in.size() >= wire::header_size) {
            wire::HeaderBytes head;
            std::memcpy(head.data(), peer.in.data(), head.size());
            auto header = wire::decode_header(head);
            must(header.ok(), "the client sent no proper header");
            size_t length = wire::header_size + header->body_length + header->data_length;
            if (peer.in.size() < length) break;
            wire::Bytes body(reinterpret_cast<const std::byte*>(peer.in.data()) + wire::header_size,
                             header->body_length);
            auto parsed = wire::decode_body(head, body);
            must(parsed.ok(), "the client sent a message that does not decode");
            if (!answer(peer, *header, *parsed)) return false;
            peer.in.erase(0, length);
        }
        return true;
    }
    bool send(Peer& peer, const wire::Body& body, uint64_t request, const std::string& data, uint32_t announced,
              uint16_t credits) {
        wire::Header header;
        header.request = request;
        header.credits = credits;
        header.data_length = announced;
        std::vector<std::byte> bytes(wire::max_message);
        auto size = wire::encode(header, body, bytes);
        if (!size.ok()) return true;
        std::string message(reinterpret_cast<const char*>(bytes.data()), *size);
        message += data;
        uint8_t damage = choices_.byte();
        if (damage == 1) message.resize(message.size() / 2);
        if (damage == 2) message[choices_.number(2) % message.size()] ^= 1;
        (void)::send(peer.socket.get(), message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        return damage != 1;
    }
    // As a target would; `bend` changes one thing of it.
    wire::Body proper(const wire::Body& asked, std::string& data, bool bend) {
        std::string& room = texts_;
        if (std::holds_alternative<wire::Hello>(asked)) {
            wire::HelloReply reply;
            reply.instance = bend ? choices_.edge() : 7;
            reply.version = bend ? static_cast<uint16_t>(choices_.edge()) : wire::version;
            reply.max_data = bend ? static_cast<uint32_t>(choices_.edge()) : wire::max_data;
            reply.node = "bad";
            return reply;
        }
        if (std::holds_alternative<wire::Open>(asked)) {
            wire::OpenReply reply;
            reply.handle = static_cast<uint32_t>(choices_.edge());
            reply.attributes.size = choices_.edge();
            return reply;
        }
        if (const auto* read = std::get_if<wire::Read>(&asked)) {
            uint64_t length = choices_.byte() % 2 == 0 ? read->length : choices_.edge() % (read->length + 1);
            wire::ReadReply reply;
            reply.length = bend ? choices_.edge() : length;
            reply.flags = length < read->length ? wire::io_flags::end_of_file : 0;
            data.assign(length, 'r');
            return reply;
        }
        if (const auto* write = std::get_if<wire::Write>(&asked))
            return wire::WriteReply{0, 0, bend ? choices_.edge() : write->length, choices_.byte()};
        if (std::holds_alternative<wire::Flush>(asked)) return wire::FlushReply{choices_.byte()};
        if (std::holds_alternative<wire::Stat>(asked)) return wire::StatReply{};
        if (std::holds_alternative<wire::Close>(asked)) return wire::CloseReply{};
        if (const auto* many = std::get_if<wire::ReadMany>(&asked)) {
            results_.clear();
            for (size_t i = 0; i < many->entries.size() + (bend ? choices_.below(3) : 0); ++i) {
                wire::ManyResult result;
                uint32_t most = i < many->entries.size() ? wire::ManyEntry(many->entries[i]).length : 10;
                result.length = choices_.byte() % 8 == 0 ? static_cast<uint32_t>(choices_.edge()) : most;
                result.error = choices_.byte() % 8 == 0 ? static_cast<uint32_t>(choices_.edge()) : 0;
                data.append(std::min<uint32_t>(result.length, 100'000), 'm');
                results_.push_back(result);
            }
            return wire::ReadManyReply{0, std::span<const wire::ManyResult>(results_)};
        }
        room = choices_.bytes(choices_.below(40));
        return wire::Error{static_cast<uint32_t>(choices_.edge()), wire::Cause::internal, 0, 0, 0, "bad", room};
    }
    bool answer(Peer& peer, const wire::Header& header, const wire::Body& asked) {
        // An input that is used up answers nothing more.
        if (!choices_.left() || ++answers_ > most_answers) return choices_.left();
        uint8_t how = choices_.byte();
        uint16_t credits = how % 7 == 0 ? static_cast<uint16_t>(choices_.edge()) : 2;
        std::string data;
        switch (how % 16) {
            case 0:
                return false;
            case 1:
                return true;  // not a word
            case 2:
                return send(
                    peer,
                    wire::Error{static_cast<uint32_t>(choices_.edge()), wire::Cause::device, 0, 0, 0, "bad", "no"},
                    header.request, {}, 0, credits);
            case 3:  // of another request
                return send(peer, proper(asked, data, false), header.request + choices_.edge(), data,
                            static_cast<uint32_t>(data.size()), credits);
            case 4:  // twice
                for (int i = 0; i < 2; ++i) {
                    data.clear();
                    wire::Body body = proper(asked, data, false);
                    if (!send(peer, body, header.request, data, static_cast<uint32_t>(data.size()), credits))
                        return false;
                }
                return true;
            case 5: {  // data that does not come, or that nobody announced
                wire::Body body = proper(asked, data, false);
                return send(peer, body, header.request, data, static_cast<uint32_t>(choices_.edge() % 5'000'000),
                            credits);
            }
            case 6: {  // noise
                std::string noise = choices_.bytes(choices_.below(200));
                (void)::send(peer.socket.get(), noise.data(), noise.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
                return true;
            }
            case 7:  // a flood of what nobody asked
                for (unsigned i = 0; i < 100; ++i) {
                    wire::Body body = i % 3 == 0   ? wire::Body(wire::LayoutRecall{i})
                                      : i % 3 == 1 ? wire::Body(wire::Credit{})
                                                   : wire::Body(wire::Goodbye{wire::Cause::draining, "go"});
                    if (!send(peer, body, i, {}, 0, UINT16_MAX)) return false;
                }
                return true;
            case 8: {
                wire::Body body = proper(asked, data, true);
                return send(peer, body, header.request, data, static_cast<uint32_t>(data.size()), credits);
            }
            case 9:  // a request of a client's
                return send(peer, wire::Stat{0, "f"}, header.request, {}, 0, credits);
            default: {
                wire::Body body = proper(asked, data, false);
                return send(peer, body, header.request, data, static_cast<uint32_t>(data.size()), credits);
            }
        }
    }

    UniqueFd listener_;
    std::string address_;
    std::atomic<bool> ending_{false};
    Choices choices_;
    size_t answers_ = 0;
    std::string texts_;
    std::vector<wire::ManyResult> results_;
    std::thread thread_;
};

// Memory between two others that nobody may touch.
class Guarded {
  public:
    explicit Guarded(size_t size) : size_(size), all_(size + 2 * guard, '#') {}
    char* data() { return all_.data() + guard; }
    void check() const {
        for (size_t i = 0; i < guard; ++i)
            must(all_[i] == '#' && all_[guard + size_ + i] == '#', "bytes beside a buffer were touched");
    }

  private:
    static constexpr size_t guard = 4096;
    const size_t size_;
    std::string all_;
};

void use(xds_ctx* ctx) {
    constexpr size_t length = 200'000;
    xds_file* file = nullptr;
    Guarded memory(length);
    if (xds_open(ctx, "f", O_RDWR, 0, &file) == 0) {
        ssize_t got = xds_pread(file, memory.data(), length, 3);
        must(got <= static_cast<ssize_t>(length), "more was read than asked");
        memory.check();
        must(xds_pwrite(file, memory.data(), length, 0) <= static_cast<ssize_t>(length), "more was written than given");
        xds_attributes attributes{};
        attributes.size = sizeof attributes;
        (void)xds_stat(file, &attributes);
        (void)xds_fsync(file);
        (void)xds_close(file);
    }
    Guarded small(3 * 1000);
    xds_many many[3];
    for (int i = 0; i < 3; ++i) many[i] = {sizeof(xds_many), 0, "f", small.data() + i * 1000, 1000, 0, 0};
    (void)xds_read_many(ctx, many, 3);
    for (const xds_many& one : many)
        must(one.got <= 1000 && one.error <= 0, "a batch's file is longer than its memory");
    small.check();
    memory.check();
}

}  // namespace
}  // namespace fabric::xds::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace fabric::xds::fuzz;
    auto begin = std::chrono::steady_clock::now();
    Server server(data, size);
    xds_options options{};
    options.size = sizeof options;
    options.address = server.address().c_str();
    options.mode = XDS_MODE_TCP;
    options.streams = 2;
    options.timeout_ms = 100;
    options.piece = 65536;
    xds_ctx* ctx = nullptr;
    if (xds_ctx_open(&options, &ctx) == 0) {
        use(ctx);
        must(xds_ctx_close(ctx) == 0, "a context cannot be closed");
    }
    // Each call has its limit; a machine that is busy gets much more.
    must(std::chrono::steady_clock::now() - begin < std::chrono::seconds(60), "calls did not end");
    return 0;
}
