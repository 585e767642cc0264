// Clients that break the rules, and what a target does under stress: no crash, bounded memory, a clear answer.
#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <map>
#include <vector>

#include "common/fault.h"
#include "tests/unit/xds/protocol/samples.h"
#include "tests/xds/target/peer.h"
#include "xds/transport/tcp/tcp_address.h"

namespace fabric::xds {
namespace {

class Hostile : public WithTarget {
  protected:
    void configure() override {
        config.credits = 8;
        config.bytes_in_flight = 16 << 20;
        config.connection_bytes = 8 << 20;
        config.open_files = 4;
    }
    void TearDown() override {
        ASSERT_TRUE(fault::arm("").ok());
        // Whatever happened, the target still serves, and nothing is held.
        put(file("alive"), "still here");
        xds_file* f = open("alive");
        char back[20];
        EXPECT_EQ(xds_pread(f, back, sizeof back, 0), 10) << xds_error();
        EXPECT_EQ(std::string(back, 10), "still here");
        xds_close(f);
        auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (target_->bytes_in_flight() != 0 && std::chrono::steady_clock::now() < deadline)
            std::this_thread::yield();
        EXPECT_EQ(target_->bytes_in_flight(), 0u);
        WithTarget::TearDown();
    }
    std::unique_ptr<Peer> peer() {
        auto made = std::make_unique<Peer>(target_->port());
        EXPECT_EQ(made->greet().header.type, wire::Type::hello_reply);
        return made;
    }
};

TEST_F(Hostile, WrongRequestsAreAnsweredAndTheConnectionLives) {
    put(file("f"), std::string(100, 'f'));
    auto p = peer();
    uint32_t handle = p->open("f");
    EXPECT_EQ(error_of(p->ask(wire::Read{99, 0, 0, 1, 0, 0, {}})), EBADF);
    EXPECT_EQ(error_of(p->ask(wire::Read{UINT32_MAX, 0, 0, 1, 0, 0, {}})), EBADF);
    EXPECT_EQ(error_of(p->ask(wire::Read{handle, 0xff0, 0, 1, 0, 0, {}})), EOPNOTSUPP);
    EXPECT_EQ(error_of(p->ask(wire::Read{handle, 0, 0, wire::max_data + 1, 0, 0, {}})), EMSGSIZE);
    EXPECT_EQ(error_of(p->ask(wire::Read{handle, 0, UINT64_MAX, 1, 0, 0, {}})), EINVAL);
    EXPECT_EQ(error_of(p->ask(wire::Read{handle, 0, UINT64_MAX, UINT64_MAX, 0, 0, {}})), EMSGSIZE);
    EXPECT_EQ(error_of(p->ask(wire::Write{handle, 0, 0, 4, 0, 0, 0, {}}, "data")), EBADF) << "opened for reading";
    EXPECT_EQ(error_of(p->ask(wire::Stat{99, {}})), EBADF);
    EXPECT_EQ(error_of(p->ask(wire::Flush{99, 0})), EBADF);
    EXPECT_EQ(error_of(p->ask(wire::Close{99})), EBADF);
    EXPECT_EQ(error_of(p->ask(wire::Layout{99, 0})), EBADF);
    EXPECT_EQ(error_of(p->ask(wire::Open{0, 0, "f", {}, {}})), EINVAL);
    EXPECT_EQ(error_of(p->ask(wire::Open{0xffff, 0, "f", {}, {}})), EOPNOTSUPP);
    EXPECT_EQ(error_of(p->ask(wire::Open{wire::open_flags::read | wire::open_flags::create, 0, "g", {}, {}})), EINVAL);
    std::vector<wire::ManyEntry> entries(2, wire::ManyEntry{0, 1, 0, 3 << 20, 0, 0});
    EXPECT_EQ(error_of(p->ask(wire::ReadMany{0, 0, std::span<const wire::ManyEntry>(entries), "f", {}})), EMSGSIZE);
    EXPECT_EQ(p->ask(wire::Read{handle, 0, 0, 100, 0, 0, {}}).data, std::string(100, 'f'));
    EXPECT_EQ(p->ask(wire::Read{handle, 0, 90, 100, 0, 0, {}}, "data that nobody asked for").data,
              std::string(10, 'f'));
    for (int i = 0; i < 3; ++i) p->open("f");
    EXPECT_EQ(error_of(p->ask(wire::Open{wire::open_flags::read, 0, "f", {}, {}})), ENFILE);
    EXPECT_EQ(error_of(p->ask(wire::Close{handle})), 0);
    EXPECT_EQ(error_of(p->ask(wire::Close{handle})), EBADF);
    EXPECT_EQ(p->open("f"), handle) << "handles are used again";
}

TEST_F(Hostile, DamagedDataIsNotWritten) {
    auto p = peer();
    uint32_t handle = p->open("w", wire::open_flags::write | wire::open_flags::create);
    EXPECT_EQ(error_of(p->ask(wire::Write{handle, 0, 0, 5, 0, 0, 0, {}}, "data")), EINVAL) << "another length";
    Arrived answer = p->ask(wire::Write{handle, wire::io_flags::checksum, 0, 4, 0, 0, 0x12345678, {}}, "data");
    EXPECT_EQ(error_of(answer), EIO);
    EXPECT_EQ(number(answer, "cause"), static_cast<uint64_t>(wire::Cause::checksum));
    EXPECT_EQ(contents(file("w")), "");
}

TEST_F(Hostile, WhatIsNoRequestEndsTheConnection) {
    for (const wire::Body& body :
         std::vector<wire::Body>{wire::Hello{}, wire::OpenReply{}, wire::ReadReply{}, wire::HelloReply{}}) {
        auto p = peer();
        ASSERT_TRUE(p->end->post(body).ok());
        EXPECT_EQ(p->end->closed().errno_value(), ECONNRESET);
    }
    Peer impolite(target_->port());
    ASSERT_TRUE(impolite.end->post(wire::Credit{}).ok());
    EXPECT_EQ(impolite.end->closed().errno_value(), ECONNRESET);
    // The first is still at the disk when the second comes.
    auto twice = peer();
    put(file("f"), std::string(4096, 'f'));
    uint32_t handle = twice->open("f");
    ASSERT_TRUE(fault::arm("backing.read=delay:2000*1").ok());
    for (int i = 0; i < 2; ++i) {
        twice->end->next_request = 1000;
        (void)twice->end->post(wire::Read{handle, 0, 0, 4096, 0, 0, {}});
    }
    EXPECT_EQ(twice->end->closed().errno_value(), ECONNRESET);
}

// Requests of random types and fields, with and without data, on many connections that end in the middle.
TEST_F(Hostile, RandomRequestsNeverStopTheTarget) {
    put(file("f"), random_bytes(300'000, 1));
    std::mt19937_64 random(7);
    std::vector<wire::Sample> samples = wire::samples();
    for (int connection = 0; connection < 40; ++connection) {
        auto p = peer();
        uint32_t handle = p->open("f");
        for (int i = 0; i < 60; ++i) {
            wire::Body body = samples[random() % samples.size()].body;
            uint64_t big = random() % 4 == 0 ? random() : random() % 400'000;
            if (auto* read = std::get_if<wire::Read>(&body))
                *read = {handle, static_cast<uint32_t>(random() % 3), big, random() % 500'000, 0, 0, {}};
            if (auto* write = std::get_if<wire::Write>(&body)) write->handle = handle;
            if (auto* close = std::get_if<wire::Close>(&body)) close->handle = static_cast<uint32_t>(random() % 5);
            if (!wire::needs_credit(wire::type_of(body)) && random() % 10 != 0) continue;
            std::string data = random() % 4 == 0 ? std::string(random() % 100'000, 'x') : "";
            if (!p->end->post(body, data).ok()) break;
        }
    }
}

// A client that asks for much and reads nothing: the target holds no more than its limits, and others are served.
TEST_F(Hostile, AClientThatReadsNothingHoldsALimitedAmount) {
    if (transport::over_rdma()) GTEST_SKIP() << "SKIP: over RDMA a target waits for no reader";
    put(file("f"), random_bytes(8 << 20, 2));
    std::vector<std::unique_ptr<Peer>> idle;
    for (int i = 0; i < 3; ++i) {
        idle.push_back(peer());
        uint32_t handle = idle.back()->open("f");
        idle.back()->end->hold_data = true;
        for (int request = 0; request < 7; ++request)
            ASSERT_TRUE(idle.back()->end->post(wire::Read{handle, 0, 0, wire::max_data, 0, 0, {}}).ok());
    }
    auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (target_->bytes_in_flight() < config.connection_bytes && std::chrono::steady_clock::now() < deadline)
        std::this_thread::yield();
    EXPECT_LE(target_->bytes_in_flight(), config.bytes_in_flight);
    auto other = peer();
    EXPECT_EQ(error_of(other->ask(wire::Stat{0, "f"})), 0);
}

TEST_F(Hostile, HalfAMessageAndSilenceCostNothing) {
    std::vector<UniqueFd> sockets;
    std::vector<std::byte> bytes(wire::max_message);
    size_t size = *wire::encode({}, wire::Hello{}, bytes);
    for (int i = 0; i < 50; ++i) {
        auto socket = transport::connect_tcp(config.listen, std::chrono::seconds(10));
        ASSERT_TRUE(socket.ok()) << socket.status().message();
        (void)::send(socket->get(), bytes.data(), size * static_cast<size_t>(i) / 50, MSG_NOSIGNAL);
        sockets.push_back(std::move(*socket));
    }
    EXPECT_EQ(target_->bytes_in_flight(), 0u);
}

TEST_F(Hostile, CancelledAndLateRequestsAreAnswered) {
    put(file("f"), random_bytes(8 << 20, 3));
    auto p = peer();
    uint32_t handle = p->open("f");
    // Two fill the connection's memory and stay at the disk; the third waits for memory and is cancelled there; the
    // time of the fourth runs out there.
    p->end->next_request = 100;
    ASSERT_TRUE(fault::arm("backing.read=delay:1000*2").ok());
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(p->end->post(wire::Read{handle, 0, 0, wire::max_data, 0, 0, {}}).ok());
    ASSERT_TRUE(p->end->post(wire::Read{handle, 0, 0, wire::max_data, 0, 1, {}}).ok());
    ASSERT_TRUE(p->end->post(wire::Cancel{102}).ok());
    ASSERT_TRUE(p->end->post(wire::Cancel{999}).ok());
    std::map<uint64_t, int> errors;
    for (int i = 0; i < 4; ++i) {
        Result<Arrived> answer = p->end->next();
        ASSERT_TRUE(answer.ok()) << answer.status().message();
        errors[answer->header.request] = error_of(*answer);
    }
    EXPECT_EQ(errors[102], ECANCELED);
    EXPECT_EQ(errors[103], ETIMEDOUT);
}

TEST_F(Hostile, DiskErrorsAndShortReadsAreTold) {
    std::string bytes = random_bytes(300'000, 4);
    put(file("f"), bytes);
    auto p = peer();
    uint32_t handle = p->open("f", wire::open_flags::read | wire::open_flags::write);
    ASSERT_TRUE(fault::arm("backing.read=EIO*1 backing.write=ENOSPC*1 backing.fsync=EIO*1").ok());
    Arrived failed = p->ask(wire::Read{handle, 0, 0, 1000, 0, 0, {}});
    EXPECT_EQ(error_of(failed), EIO);
    EXPECT_EQ(number(failed, "cause"), static_cast<uint64_t>(wire::Cause::device));
    EXPECT_EQ(error_of(p->ask(wire::Write{handle, 0, 0, 4, 0, 0, 0, {}}, "data")), ENOSPC);
    EXPECT_EQ(error_of(p->ask(wire::Flush{handle, 0})), EIO);
    ASSERT_TRUE(fault::arm("backing.read=short:4096").ok());
    EXPECT_TRUE(p->ask(wire::Read{handle, 0, 5, 290'000, 0, 0, {}}).data == bytes.substr(5, 290'000));
}

TEST_F(Hostile, PlacementsAreRecalled) {
    put(file("f"), "f");
    auto p = peer();
    uint32_t handle = p->open("f");
    ASSERT_TRUE(p->end->post(wire::Credit{}, {}, 1).ok());
    EXPECT_EQ(error_of(p->ask(wire::Read{handle, 0, 0, 1, 1, 0, {}})), 0);
    target_->set_map_epoch(5);
    Result<Arrived> recall = p->end->next();
    ASSERT_TRUE(recall.ok());
    EXPECT_EQ(recall->header.type, wire::Type::layout_recall);
    EXPECT_EQ(number(*recall, "map_epoch"), 5u);
    ASSERT_TRUE(p->end->post(wire::RecallDone{5}).ok());
    Arrived stale = p->ask(wire::Read{handle, 0, 0, 1, 4, 0, {}});
    EXPECT_EQ(error_of(stale), ESTALE);
    EXPECT_EQ(number(stale, "cause"), static_cast<uint64_t>(wire::Cause::stale_layout));
    EXPECT_EQ(number(stale, "map_epoch"), 5u);
    Arrived layout = p->ask(wire::Layout{handle, 4});
    EXPECT_EQ(number(layout, "map_epoch"), 5u);
    EXPECT_EQ(number(layout, "members"), 1u);
    EXPECT_EQ(error_of(p->ask(wire::Read{handle, 0, 0, 1, 5, 0, {}})), 0);
}

TEST_F(Hostile, ADrainAnswersWhatItHas) {
    put(file("f"), random_bytes(4 << 20, 5));
    auto p = peer();
    uint32_t handle = p->open("f");
    // The request holds its memory until the disk lets it go, so it is there when the drain begins.
    ASSERT_TRUE(fault::arm("backing.read=delay:1000*1").ok());
    ASSERT_TRUE(p->end->post(wire::Read{handle, 0, 0, wire::max_data, 0, 0, {}}).ok());
    auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (target_->bytes_in_flight() == 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    ASSERT_GT(target_->bytes_in_flight(), 0u);
    std::thread drain([&] { target_->drain(std::chrono::seconds(20)); });
    std::vector<wire::Type> came;
    for (Result<Arrived> message = p->end->next(); message.ok(); message = p->end->next()) {
        came.push_back(message->header.type);
        if (message->header.type == wire::Type::read_reply) {
            EXPECT_EQ(message->data.size(), wire::max_data);
        }
    }
    std::sort(came.begin(), came.end());
    EXPECT_EQ(came, (std::vector<wire::Type>{wire::Type::read_reply, wire::Type::goodbye}));
    drain.join();
    EXPECT_EQ(target_->connections(), 0u);
    // For TearDown: another target at the same port, and a client that has not lost one.
    EXPECT_EQ(xds_ctx_close(ctx_), 0);
    target_.reset();
    start_target();
    ctx_ = open_context();
}

}  // namespace
}  // namespace fabric::xds
