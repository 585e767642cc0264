#include "tests/xds/target/peer.h"

namespace fabric::xds {

using namespace transport;

Peer::Peer(int port) : side(std::make_unique<Side>("peer")), end(std::make_unique<Endpoint>(*side->reactor)) {
    end->begin(dial(*side, test_address(port)));
    Status status = end->connected();
    EXPECT_TRUE(status.ok()) << status.message();
}

Arrived Peer::greet(const security::Keyring* keys, const security::Ticket* ticket) {
    std::string sealed;
    hello.nonce = security::random_id();
    if (hello.time_ns == 0) hello.time_ns = target::wall_clock_ns();
    if (keys != nullptr) {
        sealed = *security::seal(*keys, *ticket);
        hello.cluster = ticket->cluster;
        hello.ticket = sealed;
        std::vector<std::byte> bytes(wire::max_message);
        size_t size = *wire::encode({}, hello, bytes);
        hello.proof = security::hello_proof(*security::secret_of(*keys, sealed),
                                            wire::Bytes(bytes).first(size).subspan(wire::header_size));
    }
    Arrived answer = ask(hello);
    hello.ticket = {};
    return answer;
}

Arrived Peer::ask(const wire::Body& body, const std::string& data) {
    Status sent = end->post(body, data);
    EXPECT_TRUE(sent.ok()) << sent.message();
    Result<Arrived> answer = end->next();
    EXPECT_TRUE(answer.ok()) << answer.status().message();
    return answer.ok() ? *answer : Arrived{};
}

uint32_t Peer::open(const std::string& path, uint32_t flags) {
    return static_cast<uint32_t>(number(ask(wire::Open{flags, 0644, path, {}, {}}), "handle"));
}

std::string text(const Arrived& message, const std::string& name) {
    std::string lines = "\n" + message.text;
    size_t at = lines.find("\n" + name + "=");
    EXPECT_NE(at, std::string::npos) << name << " in " << message.text;
    if (at == std::string::npos) return {};
    at += name.size() + 2;
    return lines.substr(at, lines.find('\n', at) - at);
}

uint64_t number(const Arrived& message, const std::string& name) {
    std::string value = text(message, name);
    return value.empty() ? UINT64_MAX : std::stoull(value);
}

int error_of(const Arrived& message) {
    return message.header.type == wire::Type::error ? static_cast<int>(number(message, "error")) : 0;
}

}  // namespace fabric::xds
