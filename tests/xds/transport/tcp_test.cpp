#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "tests/unit/xds/protocol/samples.h"
#include "tests/xds/transport/suite.h"
#include "xds/memory/sim.h"
#include "xds/transport/tcp/tcp_address.h"
#include "xds/transport/tcp/tcp_connection.h"

namespace fabric::xds::transport {
namespace {

std::pair<UniqueFd, UniqueFd> connected() {
    UniqueFd listener = std::move(*listen_tcp("127.0.0.1:0"));
    std::string address = "127.0.0.1:" + std::to_string(*port_of(listener.get()));
    auto client = connect_tcp(address, std::chrono::seconds(10));
    EXPECT_TRUE(client.ok()) << client.status().message();
    UniqueFd target(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    return {std::move(*client), std::move(target)};
}

Endpoint::Make maker(UniqueFd socket) {
    auto shared = std::make_shared<UniqueFd>(std::move(socket));
    return [shared](Reactor& reactor, Owner& owner, const Endpoint::Ready& ready) {
        ready(std::unique_ptr<Connection>(std::make_unique<TcpConnection>(reactor, owner, std::move(*shared))));
    };
}

Pair make_tcp_pair(Side& /*client*/, Side& /*target*/) {
    auto [client, target] = connected();
    return {maker(std::move(client)), maker(std::move(target)), nullptr};
}

INSTANTIATE_TEST_SUITE_P(Tcp, TransportSuite, testing::Values(&make_tcp_pair));

// What inline data brings with it: it stands between one message and the next.
class TcpData : public testing::Test {
  protected:
    TcpData() {
        auto [client, target] = connected();
        client_.start(maker(std::move(client)));
        target_.start(maker(std::move(target)));
    }
    static wire::ReadReply reply_of(size_t length) { return {0, 0, length, 0}; }
    Side client_side_{"client"}, target_side_{"target"};
    Endpoint client_{*client_side_.reactor}, target_{*target_side_.reactor};
};

TEST_F(TcpData, WaitsUntilTheOwnerHasRoom) {
    target_.hold_data = true;
    std::string first = Endpoint::random_data(300'000, 1), second = Endpoint::random_data(1000, 2);
    ASSERT_TRUE(client_.post(reply_of(first.size()), first).ok());
    ASSERT_TRUE(client_.post(reply_of(second.size()), second).ok());
    ASSERT_TRUE(client_.post(wire::Goodbye{wire::Cause::none, "done"}).ok());
    // Nothing can come before the first data was taken: ask for something from the other side meanwhile.
    ASSERT_TRUE(target_.send(wire::Credit{}, {}, 1).ok());
    ASSERT_TRUE(client_.next().ok());
    target_.release();
    EXPECT_TRUE(target_.next()->data == first);
    EXPECT_TRUE(target_.next()->data == second);
    EXPECT_EQ(target_.next()->header.type, wire::Type::goodbye);
}

TEST_F(TcpData, WhatIsSkippedLeavesTheNextMessageIntact) {
    target_.skip_data = true;
    ASSERT_TRUE(client_.post(reply_of(3'000'000), Endpoint::random_data(3'000'000, 3)).ok());
    ASSERT_TRUE(client_.post(wire::Goodbye{wire::Cause::draining, "after the data"}).ok());
    EXPECT_EQ(target_.next()->header.data_length, 3'000'000u);
    EXPECT_EQ(target_.next()->text, wire::print(wire::Goodbye{wire::Cause::draining, "after the data"}));
}

TEST_F(TcpData, OfAClosedConnectionGoesBackToItsOwner) {
    target_.hold_data = true;
    for (int i = 0; i < 20; ++i)
        ASSERT_TRUE(client_.post(reply_of(4'000'000), Endpoint::random_data(4'000'000, 4)).ok());
    EXPECT_GT(client_.sends_in_progress(), 0u) << "80 MB fit into no socket buffer";
    client_.close();
    EXPECT_FALSE(client_.closed().ok());
    EXPECT_EQ(client_.sends_in_progress(), 0u);
    target_.release();
    EXPECT_FALSE(target_.closed().ok());
}

// A peer that is not ours: bytes go over a plain socket.
class TcpPeer : public testing::Test {
  protected:
    void SetUp() override {
        reactor_ = std::move(*Reactor::start("target"));
        connect();
    }
    void connect() {
        endpoint_.reset();
        auto [client, target] = connected();
        socket_ = std::move(client);
        fcntl(socket_.get(), F_SETFL, 0);
        endpoint_ = std::make_unique<Endpoint>(*reactor_);
        endpoint_->start(maker(std::move(target)));
    }
    void put(const std::vector<std::byte>& bytes, size_t length) {
        for (size_t at = 0; at < length;) {
            ssize_t sent = ::send(socket_.get(), bytes.data() + at, length - at, MSG_NOSIGNAL);
            ASSERT_GT(sent, 0);
            at += static_cast<size_t>(sent);
        }
    }
    static std::vector<std::byte> encoded(const wire::Body& body, uint32_t data_length = 0) {
        std::vector<std::byte> bytes(wire::max_message);
        wire::Header header;
        header.data_length = data_length;
        bytes.resize(*wire::encode(header, body, bytes));
        bytes.resize(bytes.size() + data_length, std::byte{'d'});
        return bytes;
    }

    std::unique_ptr<Reactor> reactor_;
    std::unique_ptr<Endpoint> endpoint_;
    UniqueFd socket_;
};

// The connection is lost after every byte of a message with data.
TEST_F(TcpPeer, CutAtEveryByte) {
    std::vector<std::byte> message = encoded(wire::WriteReply{}, 40);
    for (size_t length = 0; length <= message.size(); ++length) {
        connect();
        put(message, length);
        socket_.reset();
        Result<Arrived> arrived = endpoint_->next();
        EXPECT_EQ(arrived.ok(), length == message.size()) << length;
        Status why = endpoint_->closed();
        EXPECT_EQ(why.errno_value(), ECONNRESET) << why.message();
        bool between = length == 0 || length == message.size();
        EXPECT_EQ(why.message().find("middle") == std::string::npos, between) << length << ": " << why.message();
    }
}

TEST_F(TcpPeer, ByteByByteIsOneMessage) {
    std::vector<std::byte> message = encoded(wire::Goodbye{wire::Cause::none, "slowly"}, 10);
    int one = 1;
    setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    for (std::byte byte : message) put({byte}, 1);
    EXPECT_EQ(endpoint_->next()->data, std::string(10, 'd'));
}

TEST_F(TcpPeer, WhatBreaksTheRulesEndsTheConnection) {
    std::vector<std::byte> good = encoded(wire::Goodbye{wire::Cause::none, "text"});
    auto changed = [&](size_t at, int value) {
        std::vector<std::byte> bytes = good;
        bytes[at] = static_cast<std::byte>(value);
        return bytes;
    };
    std::vector<std::byte> http(100, std::byte{'G'});
    for (const auto& bytes : {changed(0, 0), changed(4, 99), changed(10, 0x7f), changed(15, 0x7f), changed(28, 0),
                              changed(wire::header_size, 200), http}) {
        connect();
        put(bytes, bytes.size());
        EXPECT_EQ(endpoint_->closed().errno_value(), EPROTO);
    }
}

TEST_F(TcpPeer, ARequestWithoutACreditEndsTheConnection) {
    std::vector<std::byte> request = encoded(wire::Read{});
    ASSERT_TRUE(endpoint_->send(wire::Credit{}, {}, 2).ok());
    for (int i = 0; i < 3; ++i) put(request, request.size());
    ASSERT_TRUE(endpoint_->next().ok());
    ASSERT_TRUE(endpoint_->next().ok());
    Status why = endpoint_->closed();
    EXPECT_EQ(why.errno_value(), EPROTO);
    EXPECT_NE(why.message().find("without a credit"), std::string::npos) << why.message();
}

TEST_F(TcpPeer, AFloodOfGrantsDoesNotWrap) {
    std::vector<std::byte> bytes(wire::max_message);
    wire::Header header;
    header.credits = UINT16_MAX;
    bytes.resize(*wire::encode(header, wire::Credit{}, bytes));
    for (int i = 0; i < 100; ++i) put(bytes, bytes.size());
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(endpoint_->next().ok());
    EXPECT_EQ(endpoint_->credits(), 1u << 20);
}

// Memory that the kernel cannot touch ends the connection with EFAULT: a forgotten staging copy cannot go unnoticed.
TEST_F(TcpPeer, AcceleratorMemoryIsNoTargetForASocket) {
    void* memory = *memory::sim_allocate(4096);
    iovec part{memory, 4096};
    Fetch fetch;
    fetch.iov = &part;
    fetch.iov_count = 1;
    fetch.fetched = [](Fetch&, const Status&) {};
    endpoint_->hold_data = true;
    endpoint_->on_each = [&](Connection& connection) { connection.fetch(fetch); };
    std::vector<std::byte> message = encoded(wire::ReadReply{}, 4096);
    put(message, message.size());
    EXPECT_EQ(endpoint_->closed().errno_value(), EFAULT);
    ASSERT_TRUE(memory::sim_free(memory).ok());
}

TEST(TcpAddress, HostAndPort) {
    EXPECT_EQ(parse_address("tcp://a.b:20049")->host, "a.b");
    EXPECT_EQ(parse_address("[::1]:7")->host, "::1");
    EXPECT_EQ(parse_address(":7")->port, "7");
    for (const char* bad : {"", "host", "host:", "host:x", "host:65536", "host:123456", "::1:7", "host:-1"})
        EXPECT_FALSE(parse_address(bad).ok()) << bad;
}

TEST(TcpAddress, NobodyListeningIsNamed) {
    UniqueFd listener = std::move(*listen_tcp("127.0.0.1:0"));
    std::string address = "127.0.0.1:" + std::to_string(*port_of(listener.get()));
    listener.reset();
    Status status = connect_tcp(address, std::chrono::seconds(10)).status();
    EXPECT_EQ(status.errno_value(), ECONNREFUSED);
    EXPECT_NE(status.message().find(address), std::string::npos);
}

}  // namespace
}  // namespace fabric::xds::transport
