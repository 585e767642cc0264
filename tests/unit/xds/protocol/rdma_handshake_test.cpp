#include "xds/protocol/rdma_handshake.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>
#include <vector>

namespace fabric::xds::wire {
namespace {

std::vector<std::pair<std::string, RdmaHandshake>> samples() {
    RdmaHandshake four;
    four.queues = 4;
    four.receive_size = 8192;
    four.first_psn = 0x123456;
    four.numbers = {0x11, 0x12, 0x13};
    RdmaHandshake most;
    most.queues = max_queues;
    most.receive_size = max_message;
    most.first_psn = max_24_bits;
    most.numbers = {1, 2, 3, 4, 5, 6, max_24_bits};
    return {{"one_queue", {}}, {"four_queues", four}, {"most", most}};
}

std::string render() {
    std::string out;
    for (const auto& [name, handshake] : samples()) {
        out += "handshake " + name + "\nbytes ";
        char digits[3];
        for (std::byte byte : encode(handshake)) {
            std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(byte));
            out += digits;
        }
        out += "\n" + print(handshake) + "\n";
    }
    return out;
}

// As codec_test.cpp: the committed vectors are the format. FABRIC_WRITE_VECTORS=1 writes them.
TEST(RdmaHandshake, EncodesTheCommittedVectors) {
    if (std::getenv("FABRIC_WRITE_VECTORS") != nullptr) std::ofstream(RDMA_VECTORS) << render();
    std::stringstream committed;
    committed << std::ifstream(RDMA_VECTORS).rdbuf();
    EXPECT_EQ(render(), committed.str());
}

TEST(RdmaHandshake, RoundTripsWithThePaddingOfTheConnectionManager) {
    for (const auto& [name, handshake] : samples()) {
        auto bytes = encode(handshake);
        std::vector<std::byte> padded(bytes.begin(), bytes.end());
        padded.resize(196);
        Result<RdmaHandshake> decoded = decode_rdma_handshake(padded);
        ASSERT_TRUE(decoded.ok()) << decoded.status().message();
        EXPECT_EQ(print(*decoded), print(handshake));
    }
    RdmaRefusal refusal{rdma_version, RdmaRefusalCause::connections, 0};
    EXPECT_EQ(decode_rdma_refusal(encode(refusal))->cause, RdmaRefusalCause::connections);
}

TEST(RdmaHandshake, WhatBreaksTheRulesIsRefused) {
    auto changed = [](size_t at, std::initializer_list<int> values) {
        auto bytes = encode(samples()[1].second);
        for (int value : values) bytes[at++] = static_cast<std::byte>(value);
        return decode_rdma_handshake(bytes).status().errno_value();
    };
    EXPECT_EQ(changed(0, {}), 0);
    EXPECT_EQ(changed(0, {'N'}), EPROTO);
    EXPECT_EQ(changed(4, {2}), EPROTONOSUPPORT);
    EXPECT_EQ(changed(5, {0}), EPROTO);
    EXPECT_EQ(changed(5, {max_queues + 1}), EPROTO);
    EXPECT_EQ(changed(8, {0xff, 0x1f, 0, 0}), EPROTO) << "receives too little";
    EXPECT_EQ(changed(15, {1}), EPROTO) << "a sequence number of 25 bits";
    EXPECT_EQ(changed(19, {1}), EPROTO) << "a queue pair number of 25 bits";
    EXPECT_EQ(changed(8, {0xff, 0xff, 0xff, 0xff}), 0) << "more than any message: taken as the longest";
    auto bytes = encode(RdmaHandshake{});
    for (size_t length = 0; length < bytes.size(); ++length)
        EXPECT_FALSE(decode_rdma_handshake(Bytes(bytes).first(length)).ok()) << length;
    auto refusal = encode(RdmaRefusal{});
    for (size_t length = 0; length < refusal.size(); ++length)
        EXPECT_FALSE(decode_rdma_refusal(Bytes(refusal).first(length)).ok()) << length;
}

TEST(RdmaHandshake, RandomBytesAreRefusedOrInRange) {
    std::mt19937_64 random(5);
    for (int round = 0; round < 20000; ++round) {
        auto bytes = encode(samples()[random() % 3].second);
        for (size_t edits = random() % 6; edits > 0; --edits)
            bytes[4 + random() % (bytes.size() - 4)] = static_cast<std::byte>(random());
        Result<RdmaHandshake> decoded = decode_rdma_handshake(bytes);
        if (!decoded.ok()) continue;
        EXPECT_GE(decoded->queues, 1);
        EXPECT_LE(decoded->queues, max_queues);
        EXPECT_GE(decoded->receive_size, least_receive_size);
        EXPECT_LE(decoded->receive_size, max_message);
    }
}

}  // namespace
}  // namespace fabric::xds::wire
