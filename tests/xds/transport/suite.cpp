#include "tests/xds/transport/suite.h"

#include <random>

#include "tests/unit/xds/protocol/samples.h"

namespace fabric::xds::transport {
namespace {

std::string random_bytes(size_t length, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::string bytes(length, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    return bytes;
}

wire::ReadReply reply_of(size_t length) { return {0, 0, length, 0}; }

}  // namespace

void TransportSuite::SetUp() {
    client_reactor_ = std::move(*Reactor::start("client"));
    target_reactor_ = std::move(*Reactor::start("target"));
    client_ = std::make_unique<Endpoint>(*client_reactor_);
    target_ = std::make_unique<Endpoint>(*target_reactor_);
    Pair pair = GetParam()();
    client_->start(pair.client);
    target_->start(pair.target);
}

void TransportSuite::TearDown() {
    client_.reset();
    target_.reset();
}

TEST_P(TransportSuite, EveryMessageArrivesInOrderWithItsFields) {
    // Enough credits for all, both ways; `credit` itself costs none.
    ASSERT_TRUE(target_->send(wire::Credit{}, {}, 100).ok());
    ASSERT_TRUE(client_->send(wire::Credit{}, {}, 100).ok());
    ASSERT_TRUE(client_->next().ok());
    ASSERT_TRUE(target_->next().ok());
    for (const wire::Sample& sample : wire::samples()) ASSERT_TRUE(client_->post(sample.body).ok()) << sample.name;
    for (const wire::Sample& sample : wire::samples()) {
        Result<Arrived> message = target_->next();
        ASSERT_TRUE(message.ok()) << message.status().message();
        EXPECT_EQ(message->header.type, wire::type_of(sample.body));
        EXPECT_EQ(message->text, wire::print(sample.body));
    }
}

TEST_P(TransportSuite, DataArrivesExactlyWhateverItsParts) {
    std::mt19937_64 random(6);
    for (size_t length : {size_t{1}, size_t{4095}, size_t{4096}, size_t{4097}, size_t{1} << 20, wire::max_data}) {
        for (int round = 0; round < 3; ++round) {
            std::vector<size_t> parts;
            for (int i = 0; i < static_cast<int>(random() % 200); ++i) parts.push_back(random() % 5000);
            client_->fetch_parts.clear();
            for (int i = 0; i < static_cast<int>(random() % 200); ++i) client_->fetch_parts.push_back(random() % 50000);
            std::string data = random_bytes(length, random());
            ASSERT_TRUE(target_->post(reply_of(length), data, 0, parts).ok());
            Result<Arrived> message = client_->next();
            ASSERT_TRUE(message.ok()) << message.status().message();
            EXPECT_TRUE(message->data == data) << length;
        }
    }
}

TEST_P(TransportSuite, BothDirectionsAtOnce) {
    std::vector<std::string> sent;
    for (int i = 0; i < 40; ++i) {
        sent.push_back(random_bytes(100'000 + i * 1111, i));
        ASSERT_TRUE(target_->post(reply_of(sent.back().size()), sent.back()).ok());
        ASSERT_TRUE(client_->post(reply_of(sent.back().size()), sent.back()).ok());
    }
    for (const std::string& data : sent) {
        Result<Arrived> at_client = client_->next(), at_target = target_->next();
        ASSERT_TRUE(at_client.ok() && at_target.ok());
        EXPECT_TRUE(at_client->data == data);
        EXPECT_TRUE(at_target->data == data);
    }
}

TEST_P(TransportSuite, DataWaitsUntilTheOwnerHasRoom) {
    target_->hold_data = true;
    std::string first = random_bytes(300'000, 1), second = random_bytes(1000, 2);
    ASSERT_TRUE(client_->post(reply_of(first.size()), first).ok());
    ASSERT_TRUE(client_->post(reply_of(second.size()), second).ok());
    ASSERT_TRUE(client_->post(wire::Goodbye{wire::Cause::none, "done"}).ok());
    // Nothing can come before the first data was taken: ask for something from the other side meanwhile.
    ASSERT_TRUE(target_->send(wire::Credit{}, {}, 1).ok());
    ASSERT_TRUE(client_->next().ok());
    target_->release();
    EXPECT_TRUE(target_->next()->data == first);
    EXPECT_TRUE(target_->next()->data == second);
    EXPECT_EQ(target_->next()->header.type, wire::Type::goodbye);
}

TEST_P(TransportSuite, SkippedDataLeavesTheNextMessageIntact) {
    target_->skip_data = true;
    ASSERT_TRUE(client_->post(reply_of(3'000'000), random_bytes(3'000'000, 3)).ok());
    ASSERT_TRUE(client_->post(wire::Goodbye{wire::Cause::draining, "after the data"}).ok());
    EXPECT_EQ(target_->next()->header.data_length, 3'000'000u);
    EXPECT_EQ(target_->next()->text, wire::print(wire::Goodbye{wire::Cause::draining, "after the data"}));
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

TEST_P(TransportSuite, AClosedConnectionGivesEverythingBack) {
    target_->hold_data = true;
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(client_->post(reply_of(4'000'000), random_bytes(4'000'000, 4)).ok());
    EXPECT_GT(client_->sends_in_progress(), 0u) << "80 MB fit into no socket buffer";
    client_->close();
    EXPECT_FALSE(client_->closed().ok());
    EXPECT_EQ(client_->sends_in_progress(), 0u);
    EXPECT_EQ(client_->send(wire::FlushReply{}).errno_value(), ECONNRESET);
    target_->release();
    EXPECT_FALSE(target_->closed().ok());
}

TEST_P(TransportSuite, ClosingFromWithinACallbackIsAllowed) {
    target_->on_each = [](Connection& connection) { connection.close(Status::from_errno(EPERM, "test")); };
    ASSERT_TRUE(client_->post(reply_of(1000), random_bytes(1000, 5)).ok());
    EXPECT_EQ(target_->closed().errno_value(), EPERM);
    EXPECT_FALSE(client_->closed().ok());
}

}  // namespace fabric::xds::transport
