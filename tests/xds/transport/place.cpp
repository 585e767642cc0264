#include "tests/xds/transport/place.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "xds/transport/tcp/tcp_address.h"
#include "xds/transport/tcp/tcp_connection.h"
#include "xds/transport/verbs/verbs_dial.h"

namespace fabric::xds::transport {
namespace {

sockaddr_storage parsed(const std::string& address) {
    HostPort parts = *parse_address(address);
    sockaddr_storage result{};
    auto& ip = reinterpret_cast<sockaddr_in&>(result);
    ip.sin_family = AF_INET;
    ip.sin_port = htons(static_cast<uint16_t>(std::stoi(parts.port)));
    EXPECT_EQ(inet_pton(AF_INET, parts.host.c_str(), &ip.sin_addr), 1);
    return result;
}

// Keeps a dial until the next one or the end of the test.
struct Dialing : DialOwner {
    Endpoint::Ready ready;
    std::unique_ptr<Dial> dial;
    void on_dialed(Result<std::unique_ptr<Connection>> connection) override { ready(std::move(connection)); }
};

}  // namespace

bool over_rdma() { return std::getenv("XDS_TEST_RDMA") != nullptr; }
std::string test_host() { return over_rdma() ? std::getenv("XDS_TEST_RDMA") : "127.0.0.1"; }
std::string test_address(int port) { return test_host() + ":" + std::to_string(port); }

RdmaSide::RdmaSide(Reactor& reactor) : reactor_(reactor) {
    auto lane = reactor.call([&] { return VerbsLane::open(reactor); });
    EXPECT_TRUE(lane.ok()) << lane.status().message();
    lane_ = std::move(*lane);
}

void RdmaSide::stop() {
    reactor_.call([&] { lane_->stop(); });
}

Side::Side(const std::string& name) : reactor(std::move(*Reactor::start(name))) {
    if (over_rdma()) rdma = std::make_unique<RdmaSide>(*reactor);
}

Side::~Side() {
    if (rdma != nullptr) rdma->stop();
    reactor.reset();
}

Endpoint::Make dial(Side& side, const std::string& address, const VerbsOptions& options) {
    if (!over_rdma()) {
        auto socket = std::make_shared<Result<UniqueFd>>(connect_tcp(address, std::chrono::seconds(10)));
        EXPECT_TRUE(socket->ok()) << socket->status().message();
        return [socket](Reactor& reactor, Owner& owner, Endpoint::Ready ready) {
            ready(std::unique_ptr<Connection>(std::make_unique<TcpConnection>(reactor, owner, std::move(**socket))));
        };
    }
    auto dialing = std::make_shared<Dialing>();
    return [&side, address, dialing, options](Reactor&, Owner& owner, Endpoint::Ready ready) {
        dialing->ready = std::move(ready);
        VerbsDial::To to{parsed(address), sizeof(sockaddr_in), std::chrono::seconds(20)};
        DialOwner& told = *dialing;
        dialing->dial = std::make_unique<VerbsDial>(side.rdma->lane(), told, owner, side.rdma->domains(), to, options);
    };
}

}  // namespace fabric::xds::transport
