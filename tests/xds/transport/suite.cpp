#include "tests/xds/transport/suite.h"

#include <map>
#include <random>

#include "tests/unit/xds/protocol/samples.h"

namespace fabric::xds::transport {
namespace {

wire::Read read_of(size_t length) { return {1, 0, 0, length, 0, 0, {}}; }
wire::Write write_of(size_t length) { return {1, 0, 0, length, 0, 0, 0, {}}; }

size_t encoded_size(const wire::Body& body) {
    std::vector<std::byte> bytes(wire::max_message);
    return *wire::encode({}, body, bytes);
}

}  // namespace

void TransportSuite::SetUp() {
    client_side_ = std::make_unique<Side>("client");
    target_side_ = std::make_unique<Side>("target");
    client_ = std::make_unique<Endpoint>(*client_side_->reactor);
    target_ = std::make_unique<Endpoint>(*target_side_->reactor);
    pair_ = GetParam()(*client_side_, *target_side_);
    client_->begin(pair_.client);
    target_->begin(pair_.target);
    Status client = client_->connected(), target = target_->connected();
    ASSERT_TRUE(client.ok()) << client.message();
    ASSERT_TRUE(target.ok()) << target.message();
}

void TransportSuite::TearDown() {
    client_.reset();
    target_.reset();
    pair_ = {};
    client_side_.reset();
    target_side_.reset();
}

void TransportSuite::grant(uint16_t credits) {
    ASSERT_TRUE(target_->send(wire::Credit{}, {}, credits).ok());
    ASSERT_TRUE(client_->next().ok());
    ASSERT_TRUE(client_->send(wire::Credit{}, {}, credits).ok());
    ASSERT_TRUE(target_->next().ok());
}

TEST_P(TransportSuite, EveryMessageArrivesInOrderWithItsFields) {
    grant(100);  // enough for all, both ways; `credit` itself costs none
    size_t limit = 0;
    client_->with_connection([&](Connection& connection) { limit = connection.message_limit(); });
    std::vector<wire::Sample> sent;
    for (const wire::Sample& sample : wire::samples()) {
        Status status = client_->post(sample.body);
        if (encoded_size(sample.body) > limit) {
            EXPECT_EQ(status.errno_value(), EMSGSIZE) << sample.name;
            continue;
        }
        ASSERT_TRUE(status.ok()) << sample.name << ": " << status.message();
        sent.push_back(sample);
    }
    EXPECT_GE(sent.size(), 24u);
    for (const wire::Sample& sample : sent) {
        Result<Arrived> message = target_->next();
        ASSERT_TRUE(message.ok()) << message.status().message();
        EXPECT_EQ(message->header.type, wire::type_of(sample.body));
        // Reads and writes name memory that the endpoint lent beside what the sample says.
        if (!over_rdma()) {
            EXPECT_EQ(message->text, wire::print(sample.body));
        }
    }
}

TEST_P(TransportSuite, DataArrivesExactlyWhateverItsParts) {
    grant(100);
    target_->serves = true;
    std::mt19937_64 random(6);
    auto parts = [&](size_t most) {
        std::vector<size_t> list;
        for (int i = 0; i < static_cast<int>(random() % 200); ++i) list.push_back(random() % most);
        return list;
    };
    for (size_t length :
         {size_t{1}, size_t{100}, size_t{4095}, size_t{4096}, size_t{4097}, size_t{1} << 20, wire::max_data}) {
        for (int round = 0; round < 3; ++round) {
            target_->serve_parts = parts(5000);
            client_->fetch_parts = parts(50000);
            uint64_t request = client_->next_request;
            Status read = client_->post(read_of(length));
            ASSERT_TRUE(read.ok()) << read.message();
            Result<Arrived> answer = client_->next();
            ASSERT_TRUE(answer.ok()) << answer.status().message();
            EXPECT_TRUE(answer->data == Endpoint::random_data(length, request)) << length;
            target_->fetch_parts = parts(50000);
            std::string data = Endpoint::random_data(length, random());
            ASSERT_TRUE(client_->post(write_of(length), data, 0, parts(5000)).ok());
            Result<Arrived> write = target_->next();
            ASSERT_TRUE(write.ok()) << write.status().message();
            EXPECT_TRUE(write->data == data) << length;
            ASSERT_TRUE(client_->next().ok());
        }
    }
}

TEST_P(TransportSuite, BothDirectionsAtOnce) {
    grant(100);
    target_->serves = true;
    std::map<uint64_t, size_t> reads;
    std::map<uint64_t, std::string> writes;
    for (int i = 0; i < 40; ++i) {
        size_t length = 100'000 + i * 1111;
        reads[client_->next_request] = length;
        Status read = client_->post(read_of(length));
        ASSERT_TRUE(read.ok()) << i << ": " << read.message();
        std::string data = Endpoint::random_data(length, i);
        writes[client_->next_request] = data;
        Status write = client_->post(write_of(length), data);
        ASSERT_TRUE(write.ok()) << i << ": " << write.message();
    }
    for (int i = 0; i < 40; ++i) {
        Result<Arrived> write = target_->next();
        ASSERT_TRUE(write.ok()) << write.status().message();
        EXPECT_TRUE(write->data == writes[write->header.request]);
    }
    for (int i = 0; i < 80; ++i) {
        Result<Arrived> answer = client_->next();
        ASSERT_TRUE(answer.ok()) << answer.status().message();
        uint64_t request = answer->header.request;
        if (answer->header.type != wire::Type::read_reply) continue;
        EXPECT_TRUE(answer->data == Endpoint::random_data(reads[request], request));
        reads.erase(request);
    }
    EXPECT_TRUE(reads.empty());
}

TEST_P(TransportSuite, RequestsCostCreditsAndRepliesDoNot) {
    EXPECT_EQ(client_->send(wire::Close{1}).errno_value(), EAGAIN);
    ASSERT_TRUE(target_->send(wire::Credit{}, {}, 2).ok());
    ASSERT_TRUE(client_->next().ok());
    EXPECT_TRUE(client_->send(wire::Close{1}).ok());
    EXPECT_TRUE(client_->send(wire::FlushReply{}).ok());
    EXPECT_EQ(client_->credits(), 1u);
    EXPECT_TRUE(client_->send(wire::Close{2}).ok());
    EXPECT_EQ(client_->send(wire::Close{3}).errno_value(), EAGAIN);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(target_->next().ok());
    ASSERT_TRUE(target_->send(wire::CloseReply{}, {}, 1).ok());
    ASSERT_TRUE(client_->next().ok());
    EXPECT_EQ(client_->credits(), 1u);
}

// Whatever had not happened by then is told to have failed, and nothing is told twice.
TEST_P(TransportSuite, AClosedConnectionGivesEverythingBack) {
    grant(100);
    target_->serves = true;
    for (int i = 0; i < 30; ++i) {
        ASSERT_TRUE(client_->post(read_of(1'000'000)).ok());
        ASSERT_TRUE(client_->post(write_of(100'000), Endpoint::random_data(100'000, 4)).ok());
    }
    client_->close();
    EXPECT_FALSE(client_->closed().ok());
    EXPECT_EQ(client_->sends_in_progress(), 0u);
    EXPECT_EQ(client_->send(wire::FlushReply{}).errno_value(), ECONNRESET);
    EXPECT_FALSE(target_->closed().ok());
    EXPECT_EQ(target_->sends_in_progress(), 0u);
}

TEST_P(TransportSuite, ClosingFromWithinACallbackIsAllowed) {
    grant(1);
    target_->on_each = [](Connection& connection) { connection.close(Status::from_errno(EPERM, "test")); };
    ASSERT_TRUE(client_->post(write_of(1000), Endpoint::random_data(1000, 5)).ok());
    EXPECT_EQ(target_->closed().errno_value(), EPERM);
    EXPECT_FALSE(client_->closed().ok());
}

}  // namespace fabric::xds::transport
