#include "xds/protocol/codec.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>

#include "common/crc32c.h"
#include "tests/unit/xds/protocol/samples.h"

namespace fabric::xds::wire {
namespace {

using Buffer = std::vector<std::byte>;

Buffer encoded(const Sample& sample) {
    Buffer bytes(max_message);
    Result<size_t> size = encode(sample.header, sample.body, bytes);
    EXPECT_TRUE(size.ok()) << sample.name << ": " << size.status().message();
    bytes.resize(size.ok() ? *size : 0);
    return bytes;
}

HeaderBytes header_of(const Buffer& bytes) {
    HeaderBytes header;
    std::memcpy(header.data(), bytes.data(), header_size);
    return header;
}
Bytes body_of(const Buffer& bytes) { return Bytes(bytes).subspan(header_size); }

std::string hex(const Buffer& bytes) {
    std::string out;
    char digits[3];
    for (std::byte byte : bytes) {
        std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(byte));
        out += digits;
    }
    return out;
}

std::string render(const std::vector<Sample>& list) {
    std::string out;
    for (const Sample& sample : list) {
        const Header& header = sample.header;
        out += "vector " + sample.name + "\n";
        out += "header.request=" + std::to_string(header.request) + "\n";
        out += "header.credits=" + std::to_string(header.credits) + "\n";
        out += "header.data_length=" + std::to_string(header.data_length) + "\n";
        out += "bytes " + hex(encoded(sample)) + "\n" + print(sample.body) + "\n";
    }
    return out;
}

// The committed vectors are the format: a change of any byte is a new version. Run with FABRIC_WRITE_VECTORS=1 to
// write them after such a decision.
TEST(Codec, EncodesTheCommittedVectors) {
    if (std::getenv("FABRIC_WRITE_VECTORS") != nullptr) std::ofstream(VECTORS) << render(samples());
    std::stringstream committed;
    committed << std::ifstream(VECTORS).rdbuf();
    EXPECT_EQ(render(samples()), committed.str());
}

TEST(Codec, RoundTripsEverySample) {
    for (const Sample& sample : samples()) {
        Buffer bytes = encoded(sample);
        Result<Header> header = decode_header(header_of(bytes));
        ASSERT_TRUE(header.ok()) << sample.name;
        EXPECT_EQ(header->type, type_of(sample.body));
        EXPECT_EQ(header->request, sample.header.request);
        EXPECT_EQ(header->credits, sample.header.credits);
        EXPECT_EQ(header->data_length, sample.header.data_length);
        Result<Body> body = decode_body(header_of(bytes), body_of(bytes));
        ASSERT_TRUE(body.ok()) << sample.name << ": " << body.status().message();
        EXPECT_EQ(print(*body), print(sample.body));
    }
}

TEST(Codec, EveryShorterBodyIsRefused) {
    for (const Sample& sample : samples()) {
        Buffer bytes = encoded(sample);
        Bytes body = body_of(bytes);
        for (size_t length = 0; length < body.size(); ++length)
            EXPECT_FALSE(parse_body(type_of(sample.body), body.first(length)).ok()) << sample.name << " " << length;
    }
}

TEST(Codec, ALongerBodyIsRefusedExceptInAHello) {
    for (const Sample& sample : samples()) {
        Buffer bytes = encoded(sample);
        bytes.push_back(std::byte{0});
        Type type = type_of(sample.body);
        EXPECT_EQ(parse_body(type, body_of(bytes)).ok(), type == Type::hello || type == Type::hello_reply)
            << sample.name;
    }
}

TEST(Codec, OneChangedBitAnywhereIsFound) {
    for (const Sample& sample : samples()) {
        Buffer bytes = encoded(sample);
        if (bytes.size() > 1000) continue;
        for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
            bytes[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
            EXPECT_FALSE(decode_body(header_of(bytes), body_of(bytes)).ok()) << sample.name << " bit " << bit;
            bytes[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
        }
    }
}

TEST(Codec, HeadersAboveTheBoundsAreRefusedBeforeTheBody) {
    Buffer bytes = encoded({"", Header{}, Credit{}});
    auto with = [&](size_t at, std::initializer_list<int> values) {
        HeaderBytes header = header_of(bytes);
        for (int value : values) header[at++] = static_cast<std::byte>(value);
        return decode_header(header);
    };
    EXPECT_TRUE(with(0, {}).ok());
    EXPECT_FALSE(with(0, {'H'}).ok());
    EXPECT_FALSE(with(4, {0}).ok());
    EXPECT_FALSE(with(4, {25}).ok());
    EXPECT_TRUE(with(8, {0, 0, 1, 0}).ok());
    EXPECT_FALSE(with(8, {1, 0, 1, 0}).ok());
    EXPECT_TRUE(with(12, {0, 0, 0x40, 0}).ok());
    EXPECT_FALSE(with(12, {1, 0, 0x40, 0}).ok());
}

TEST(Codec, FieldsAboveTheirLimitsAreNotEncoded) {
    Buffer out(max_message);
    std::string long_path(max_path + 1, 'x');
    EXPECT_FALSE(encode({}, Stat{0, long_path}, out).ok());
    std::vector<Segment> many(max_segments + 1);
    Read read;
    read.segments = std::span<const Segment>(many);
    EXPECT_FALSE(encode({}, read, out).ok());
    Error no_error;
    EXPECT_FALSE(encode({}, no_error, out).ok());
    std::string names(max_body, 'n');
    EXPECT_FALSE(encode({}, ReadMany{0, 0, {}, names, {}}, out).ok());
    EXPECT_FALSE(encode({}, Credit{}, std::span(out).first(header_size - 1)).ok());
    EXPECT_FALSE(encode({}, Stat{0, "ab"}, std::span(out).first(header_size + 7)).ok());
    EXPECT_TRUE(encode({}, Stat{0, "ab"}, std::span(out).first(header_size + 8)).ok());
}

TEST(Codec, NamesOutsideTheBlobAreRefused) {
    for (uint32_t at : {0u, 4u, 5u, 0xffff'ffffu}) {
        std::vector<ManyEntry> entries = {{at, 4, 0, 0, 0, 0}};
        Buffer bytes = encoded({"", Header{}, ReadMany{0, 0, std::span<const ManyEntry>(entries), "12345678", {}}});
        EXPECT_EQ(decode_body(header_of(bytes), body_of(bytes)).ok(), at <= 4) << at;
        std::vector<Member> members = {{at, 2, 2, 0, 0}};
        bytes = encoded({"", Header{}, LayoutReply{0, 0, std::span<const Member>(members), "12345678"}});
        EXPECT_EQ(decode_body(header_of(bytes), body_of(bytes)).ok(), at <= 4) << at;
    }
}

// Property: for random fields, decode(encode(x)) == x.
TEST(Codec, RandomReadsAndWritesRoundTrip) {
    std::mt19937_64 random(3);
    for (int round = 0; round < 2000; ++round) {
        std::vector<Segment> segments(random() % (max_segments + 1));
        for (Segment& s : segments) s = {random(), static_cast<uint32_t>(random()), static_cast<uint32_t>(random())};
        Read read{static_cast<uint32_t>(random()), static_cast<uint32_t>(random()),   random(), random(), random(),
                  static_cast<uint32_t>(random()), std::span<const Segment>(segments)};
        Header header;
        header.request = random();
        header.credits = static_cast<uint16_t>(random());
        Buffer bytes = encoded({"read", header, read});
        Result<Body> body = decode_body(header_of(bytes), body_of(bytes));
        ASSERT_TRUE(body.ok());
        EXPECT_EQ(print(*body), print(read));
    }
}

// Seeded mutations of valid bodies, with the checksum made right again: whatever comes is refused or decodes to
// something that encodes to the same bytes (the format has one form for each message).
TEST(Codec, MutatedBodiesAreRefusedOrCanonical) {
    std::mt19937_64 random(4);
    std::vector<Sample> list = samples();
    int decoded = 0;
    for (int round = 0; round < 60000; ++round) {
        const Sample& sample = list[random() % list.size()];
        Buffer bytes = encoded(sample);
        Buffer body(bytes.begin() + header_size, bytes.end());
        for (size_t edits = random() % 4 + 1; edits > 0 && !body.empty(); --edits) {
            size_t at = random() % body.size();
            if (random() % 8 == 0)
                body.resize(at);
            else if (random() % 8 == 0)
                body.insert(body.begin() + at, random() % 40, static_cast<std::byte>(random()));
            else
                body[at] = static_cast<std::byte>(random() % 3 == 0 ? 0xff : random());
        }
        Type type = random() % 10 == 0 ? static_cast<Type>(random() % 26) : type_of(sample.body);
        Result<Body> parsed = parse_body(type, body);
        if (!parsed.ok()) continue;
        ++decoded;
        Buffer again(max_message);
        Result<size_t> size = encode({}, *parsed, again);
        ASSERT_TRUE(size.ok()) << print(*parsed);
        size_t compared = *size - header_size;
        if (type != Type::hello && type != Type::hello_reply) {
            ASSERT_EQ(compared, body.size());
        }
        ASSERT_TRUE(std::equal(body.begin(), body.begin() + compared, again.begin() + header_size));
    }
    EXPECT_GT(decoded, 1000);
}

TEST(Codec, EveryTypeAndCauseHasAName) {
    for (int type = 1; type <= 24; ++type) EXPECT_STRNE(name_of(static_cast<Type>(type)), "unknown");
    EXPECT_STREQ(name_of(static_cast<Type>(25)), "unknown");
    EXPECT_STREQ(name_of(static_cast<Type>(0)), "unknown");
    for (int cause = 0; cause < cause_count; ++cause) EXPECT_STRNE(name_of(static_cast<Cause>(cause)), "unknown");
    EXPECT_STREQ(name_of(static_cast<Cause>(cause_count)), "unknown");
    EXPECT_STREQ(name_of(Cause::internal), "internal");
}

}  // namespace
}  // namespace fabric::xds::wire
