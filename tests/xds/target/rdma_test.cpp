// Clients that break the rules of RDMA, and what is left of connections: over RDMA alone, see ../in_vm.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "common/fault.h"
#include "tests/xds/client/fixture.h"
#include "tests/xds/target/raw_rdma.h"
#include "tests/xds/transport/place.h"

namespace fabric::xds {
namespace {

using std::chrono::steady_clock;

constexpr uint32_t page = 4096;

class Rdma : public WithTarget {
  protected:
    void configure() override {
        config.credits = 8;
        config.lanes = 1;
    }
    void SetUp() override {
        WithTarget::SetUp();
        bytes_ = random_bytes(64 << 10, 1);
        put(file("f"), bytes_);
    }
    // Whatever happened, the target serves others, holds nothing, and their bytes are right.
    void TearDown() override {
        ASSERT_TRUE(fault::arm("").ok());
        std::string back(bytes_.size(), '#');
        xds_file* f = open("f");
        EXPECT_EQ(xds_pread(f, back.data(), back.size(), 0), static_cast<ssize_t>(back.size())) << xds_error();
        EXPECT_TRUE(back == bytes_);
        EXPECT_EQ(xds_close(f), 0);
        EXPECT_TRUE(becomes([&] { return target_->bytes_in_flight() == 0; }));
        WithTarget::TearDown();
    }
    static bool becomes(const std::function<bool()>& condition) {
        for (auto end = steady_clock::now() + std::chrono::seconds(30); !condition();) {
            if (steady_clock::now() > end) return false;
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
        return true;
    }
    std::unique_ptr<RawRdma> raw() {
        auto made = std::make_unique<RawRdma>(transport::test_host(), target_->port());
        EXPECT_TRUE(made->connected().ok()) << made->connected().message();
        EXPECT_EQ(made->greet(), config.credits);
        return made;
    }
    static wire::Read read_into(uint32_t handle, uint64_t length, std::span<const wire::Segment> segments) {
        return {handle, 0, 0, length, 0, 0, segments};
    }

    std::string bytes_;
};

TEST_F(Rdma, HandshakesThatAreNoneAreRefused) {
    auto proper = wire::encode(wire::RdmaHandshake{});
    auto damaged = [&](size_t at, uint8_t value) {
        auto copy = proper;
        copy[at] = static_cast<std::byte>(value);
        return copy;
    };
    for (const auto& bytes : {damaged(0, 0), damaged(4, 9), damaged(5, 0), damaged(5, 200), damaged(9, 0)}) {
        RawRdma client(transport::test_host(), target_->port(), bytes.data(), bytes.size());
        EXPECT_EQ(client.connected().errno_value(), ECONNREFUSED) << client.connected().message();
    }
    RawRdma silent(transport::test_host(), target_->port(), nullptr, 0);
    EXPECT_FALSE(silent.connected().ok());
    EXPECT_TRUE(becomes([&] { return target_->connections() == 1; })) << "the test's own";
}

// Queue pairs that do not exist: the target makes its own and finds nobody behind them.
TEST_F(Rdma, QueuePairsThatAreNoneCostNothing) {
    wire::RdmaHandshake handshake;
    handshake.queues = wire::max_queues;
    handshake.receive_size = 65536 + wire::header_size;
    handshake.first_psn = wire::max_24_bits;
    handshake.numbers.fill(wire::max_24_bits);
    auto bytes = wire::encode(handshake);
    RawRdma client(transport::test_host(), target_->port(), bytes.data(), bytes.size());
    ASSERT_TRUE(client.connected().ok()) << client.connected().message();
    EXPECT_EQ(client.greet(), config.credits);
}

TEST_F(Rdma, BytesThatAreNoMessageEndTheConnection) {
    std::vector<std::byte> hello(wire::max_message);
    size_t size = *wire::encode({}, wire::Hello{}, hello);
    std::string noise = random_bytes(60'000, 5);
    for (size_t length : {size_t{1}, wire::header_size - 1, wire::header_size, size - 1}) {
        RawRdma client(transport::test_host(), target_->port());
        ASSERT_TRUE(client.connected().ok());
        ASSERT_TRUE(client.send(hello.data(), length).ok());
        EXPECT_TRUE(client.cut_off()) << length;
    }
    auto client = raw();
    ASSERT_TRUE(client->send(noise.data(), 4000).ok());
    EXPECT_TRUE(client->cut_off());
    // More than the target takes in one message: its card refuses it.
    auto large = raw();
    ASSERT_TRUE(large->send(noise.data(), noise.size()).ok());
    EXPECT_TRUE(large->cut_off());
}

TEST_F(Rdma, KeysThatAreNoneMoveNoByte) {
    auto memory = random_bytes(4 * page, 6);
    const std::string before = memory;
    uint64_t address = reinterpret_cast<uint64_t>(memory.data()) + page;
    struct Lie {
        const char* what;
        uint64_t address;
        uint32_t key_change, length;
    };
    for (const Lie& lie :
         {Lie{"a key of nobody", address, 0x5a5a5a5a, page}, Lie{"the key of another time", address, 1, page},
          Lie{"no memory", 0, 0, page}, Lie{"wraps around", UINT64_MAX - 100, 0, page},
          Lie{"longer than what was registered", address, 0, 2 * page},
          Lie{"begins before it", address - 1, 0, page}}) {
        auto client = raw();
        uint32_t key = client->lend(memory.data() + page, page);
        uint32_t handle = client->open("f", wire::open_flags::read);
        wire::Segment segment{lie.address, key ^ lie.key_change, lie.length};
        ASSERT_TRUE(client->send(read_into(handle, lie.length, {&segment, 1}), 3).ok());
        EXPECT_TRUE(client->cut_off()) << lie.what;
        client.reset();
        // Within the registered page alone a part of a transfer may have arrived before the target's card was refused.
        EXPECT_EQ(memory.substr(0, page), before.substr(0, page)) << lie.what;
        EXPECT_EQ(memory.substr(2 * page), before.substr(2 * page)) << lie.what;
    }
}

TEST_F(Rdma, DataThatCannotBeFetchedIsNotWritten) {
    put(file("w"), "as it was");
    for (uint32_t change : {0x5a5a5a5aU, 1U}) {
        auto client = raw();
        std::string memory(page, 'w');
        uint32_t key = client->lend(memory.data(), memory.size());
        uint32_t handle = client->open("w", wire::open_flags::write);
        wire::Segment segment{reinterpret_cast<uint64_t>(memory.data()), key ^ change, page};
        wire::Write write{handle, 0, 0, page, 0, 0, 0, std::span<const wire::Segment>(&segment, 1)};
        ASSERT_TRUE(client->send(write, 3).ok());
        EXPECT_TRUE(client->cut_off());
    }
    EXPECT_TRUE(becomes([&] { return target_->bytes_in_flight() == 0; }));
    EXPECT_EQ(contents(file("w")), "as it was");
}

TEST_F(Rdma, LengthsThatDoNotAgreeAreAnswered) {
    auto client = raw();
    std::string memory(2 * page, '-');
    uint32_t key = client->lend(memory.data(), memory.size());
    uint32_t handle = client->open("f", wire::open_flags::read);
    auto at = reinterpret_cast<uint64_t>(memory.data());
    std::vector<wire::Segment> none, empty(64, {at, key, 0}), shorter{{at, key, 100}, {at + 200, key, 100}};
    for (const auto& segments : {none, empty, shorter}) {
        ASSERT_TRUE(client->send(read_into(handle, 201, segments), 3).ok());
        auto answer = client->next();
        ASSERT_TRUE(answer.ok()) << answer.status().message();
        EXPECT_EQ(answer->header.type, wire::Type::error);
        EXPECT_EQ(answer->text.find("error=" + std::to_string(EINVAL) + "\n"), 0u) << answer->text;
    }
    EXPECT_EQ(memory, std::string(2 * page, '-'));
    // Inline data has no place in a message over RDMA, and the segments are used one behind the other.
    ASSERT_TRUE(client->send(read_into(handle, 200, shorter), 3).ok());
    ASSERT_TRUE(client->next().ok());
    EXPECT_EQ(memory.substr(0, 100), bytes_.substr(0, 100));
    EXPECT_EQ(memory.substr(100, 100), std::string(100, '-'));
    EXPECT_EQ(memory.substr(200, 100), bytes_.substr(100, 100));
    EXPECT_EQ(memory.substr(300), std::string(2 * page - 300, '-'));
}

// More requests than were granted: all that were are held at the disk, so none comes back.
TEST_F(Rdma, WhoIgnoresCreditsIsCutOff) {
    auto client = raw();
    std::string memory(page, '-');
    uint32_t key = client->lend(memory.data(), memory.size());
    uint32_t handle = client->open("f", wire::open_flags::read);
    wire::Segment segment{reinterpret_cast<uint64_t>(memory.data()), key, page};
    ASSERT_TRUE(fault::arm("backing.read=delay:3000").ok());
    for (uint64_t request = 3; request < 3 + 9; ++request)
        ASSERT_TRUE(client->send(read_into(handle, page, {&segment, 1}), request).ok());
    EXPECT_TRUE(client->cut_off());
    ASSERT_TRUE(fault::arm("").ok());
}

// A client that dies with transfers under way: the target gets its memory back.
TEST_F(Rdma, AClientThatDiesInTheMiddleCostsNothing) {
    put(file("large"), random_bytes(4 << 20, 7));
    for (int round = 0; round < 5; ++round) {
        std::string memory(4 << 20, '-');
        auto client = raw();
        uint32_t key = client->lend(memory.data(), memory.size());
        uint32_t handle = client->open("large", wire::open_flags::read);
        wire::Segment segment{reinterpret_cast<uint64_t>(memory.data()), key, 4 << 20};
        for (uint64_t request = 3; request < 3 + 6; ++request)
            ASSERT_TRUE(client->send(read_into(handle, 4 << 20, {&segment, 1}), request).ok());
        client.reset();
    }
    EXPECT_TRUE(becomes([&] { return target_->bytes_in_flight() == 0 && target_->connections() == 1; }));
}

// What the kernel counts as in use on all RDMA devices: "pd 2 cq 2 qp 2 cm_id 4 mr 3 ctx 2 srq 1" and the like.
std::string resources() {
    FILE* tool = popen("rdma resource show", "r");
    std::string text;
    char line[512];
    while (tool != nullptr && fgets(line, sizeof line, tool) != nullptr) text += line;
    EXPECT_EQ(pclose(tool), 0) << text;
    return text;
}

// A protection domain that is gone had no memory window left: the kernel does not let go of it before.
TEST_F(Rdma, NothingIsLeftOf200Connections) {
    Memory sim(true, 256 << 10);
    auto once = [&] {
        xds_ctx* ctx = open_context();
        xds_file* f = nullptr;
        ASSERT_EQ(xds_open(ctx, "f", O_RDONLY, 0, &f), 0) << xds_error();
        std::string back(bytes_.size(), '#');
        ASSERT_EQ(xds_pread(f, back.data(), back.size(), 0), static_cast<ssize_t>(bytes_.size())) << xds_error();
        EXPECT_TRUE(back == bytes_);
        // Through staging memory, which is lent by windows.
        ASSERT_EQ(xds_pread(f, sim.data(), back.size(), 0), static_cast<ssize_t>(bytes_.size())) << xds_error();
        EXPECT_TRUE(sim.read(0, bytes_.size()) == bytes_);
        EXPECT_EQ(xds_ctx_close(ctx), 0);
    };
    once();
    ASSERT_TRUE(becomes([&] { return target_->connections() == 1; }));
    const std::string before = resources();
    std::printf("before: %s", before.c_str());
    EXPECT_NE(before.find(" qp "), std::string::npos);
    for (int i = 0; i < 200 && !HasFailure(); ++i) once();
    std::string after;
    EXPECT_TRUE(becomes([&] { return (after = resources()) == before; })) << "after: " << after;
    std::printf("after:  %s", after.c_str());
}

}  // namespace
}  // namespace fabric::xds

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    if (!fabric::xds::transport::over_rdma()) {
        std::printf("SKIP: hostile RDMA clients: XDS_TEST_RDMA does not name the address of an RDMA device\n");
        return 77;
    }
    return RUN_ALL_TESTS();
}
