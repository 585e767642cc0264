// Targets that die, that do not answer, and that lie: the right bytes or a clear error, in bounded time.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <atomic>
#include <functional>

#include "tests/xds/client/daemon.h"
#include "tests/xds/client/fixture.h"
#include "tests/xds/transport/endpoint.h"
#include "xds/transport/tcp/tcp_address.h"
#include "xds/transport/tcp/tcp_connection.h"

namespace fabric::xds {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

xds_ctx* connect(const std::string& address, uint32_t timeout_ms = 5000, int expected = 0) {
    xds_options options{};
    options.size = sizeof options;
    options.address = address.c_str();
    options.timeout_ms = timeout_ms;
    xds_ctx* ctx = nullptr;
    EXPECT_EQ(xds_ctx_open(&options, &ctx), expected) << xds_error();
    return ctx;
}

TEST(Failure, ATargetKilledInTheMiddleOfReadsAndStartedAgain) {
    TemporaryFolder folder;
    std::string bytes = random_bytes(16 << 20, 1);
    put(folder.path() + "/f", bytes);
    auto daemon = std::make_unique<Daemon>(folder.path());
    int port = daemon->port();
    xds_ctx* ctx = connect(daemon->address(), 20'000);
    xds_file* f = nullptr;
    ASSERT_EQ(xds_open(ctx, "f", O_RDONLY, 0, &f), 0) << xds_error();
    std::atomic<int> whole{0};
    std::atomic<bool> failed{false};
    std::vector<char> memory(bytes.size());
    std::thread reader([&] {
        for (;;) {
            std::fill(memory.begin(), memory.end(), 0);
            ssize_t got = xds_pread(f, memory.data(), memory.size(), 0);
            if (got < 0) break;
            EXPECT_EQ(got, static_cast<ssize_t>(bytes.size()));
            EXPECT_EQ(std::memcmp(memory.data(), bytes.data(), bytes.size()), 0);
            ++whole;
        }
        EXPECT_STRNE(xds_error(), "");
        failed = true;
    });
    while (whole < 2 && !failed) std::this_thread::yield();
    EXPECT_GE(whole, 2) << "it failed before the target was killed";
    auto killed = Clock::now();
    daemon->kill();
    reader.join();
    EXPECT_TRUE(failed);
    EXPECT_LT(Clock::now() - killed, 20s);
    daemon = std::make_unique<Daemon>(folder.path(), port);
    // The first attempts may come within the pause after a failed connection.
    ssize_t got = -1;
    for (auto end = Clock::now() + 20s; got < 0 && Clock::now() < end;)
        got = xds_pread(f, memory.data(), memory.size(), 0);
    ASSERT_EQ(got, static_cast<ssize_t>(bytes.size())) << xds_error();
    EXPECT_EQ(std::memcmp(memory.data(), bytes.data(), bytes.size()), 0);
    xds_stats stats{};
    stats.size = sizeof stats;
    ASSERT_EQ(xds_stats_get(ctx, &stats), 0);
    EXPECT_GE(stats.reconnects, 1u);
    EXPECT_EQ(xds_ctx_close(ctx), 0);
    EXPECT_EQ(daemon->terminate(), 0);
}

TEST(Failure, ATargetKilledInTheMiddleOfWritesAndStartedAgain) {
    TemporaryFolder folder;
    auto daemon = std::make_unique<Daemon>(folder.path());
    int port = daemon->port();
    xds_ctx* ctx = connect(daemon->address(), 20'000);
    xds_file* f = nullptr;
    ASSERT_EQ(xds_open(ctx, "w", O_RDWR | O_CREAT, 0600, &f), 0) << xds_error();
    std::string bytes = random_bytes(16 << 20, 2);
    std::atomic<int> whole{0};
    std::atomic<bool> failed{false};
    std::thread writer([&] {
        while (xds_pwrite(f, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size())) ++whole;
        EXPECT_STRNE(xds_error(), "");
        failed = true;
    });
    while (whole < 2 && !failed) std::this_thread::yield();
    EXPECT_GE(whole, 2) << "it failed before the target was killed";
    auto killed = Clock::now();
    daemon->kill();
    writer.join();
    EXPECT_LT(Clock::now() - killed, 20s);
    daemon = std::make_unique<Daemon>(folder.path(), port);
    std::string other = random_bytes(bytes.size(), 3);
    ssize_t wrote = -1;
    for (auto end = Clock::now() + 20s; wrote < 0 && Clock::now() < end;)
        wrote = xds_pwrite(f, other.data(), other.size(), 0);
    ASSERT_EQ(wrote, static_cast<ssize_t>(other.size())) << xds_error();
    // Told once that writes of before may be lost.
    EXPECT_EQ(xds_fsync(f), -EIO);
    EXPECT_EQ(xds_fsync(f), 0) << xds_error();
    EXPECT_TRUE(contents(folder.path() + "/w") == other);
    EXPECT_EQ(xds_ctx_close(ctx), 0);
    EXPECT_EQ(daemon->terminate(), 0);
}

// A storage node that hangs and comes back: what it does then is for nobody.
TEST(Failure, ATargetThatHangsWritesIntoNothing) {
    TemporaryFolder folder;
    std::string bytes = random_bytes(8 << 20, 4);
    put(folder.path() + "/f", bytes);
    Daemon daemon(folder.path());
    xds_ctx* ctx = connect(daemon.address(), 1500);
    xds_file* f = nullptr;
    ASSERT_EQ(xds_open(ctx, "f", O_RDONLY, 0, &f), 0) << xds_error();
    std::string memory(bytes.size(), '-');
    ASSERT_EQ(xds_pread(f, memory.data(), memory.size(), 0), static_cast<ssize_t>(bytes.size())) << xds_error();
    daemon.pause();
    auto start = Clock::now();
    EXPECT_EQ(xds_pread(f, memory.data(), memory.size(), 0), -ETIMEDOUT) << xds_error();
    EXPECT_LT(Clock::now() - start, 20s);
    std::fill(memory.begin(), memory.end(), '#');
    daemon.resume();
    // When it answers again it has seen the end of the old connection.
    std::string again(bytes.size(), '-');
    ssize_t got = -1;
    for (auto end = Clock::now() + 20s; got < 0 && Clock::now() < end;)
        got = xds_pread(f, again.data(), again.size(), 0);
    ASSERT_EQ(got, static_cast<ssize_t>(bytes.size())) << xds_error();
    EXPECT_TRUE(again == bytes);
    EXPECT_TRUE(memory == std::string(bytes.size(), '#'));
    EXPECT_EQ(xds_ctx_close(ctx), 0);
}

TEST(Failure, WritesThatARestartMayHaveLostAreReportedByTheNextFlush) {
    TemporaryFolder folder;
    auto daemon = std::make_unique<Daemon>(folder.path());
    int port = daemon->port();
    xds_ctx* ctx = connect(daemon->address());
    xds_file* f = nullptr;
    ASSERT_EQ(xds_open(ctx, "w", O_RDWR | O_CREAT, 0600, &f), 0) << xds_error();
    ASSERT_EQ(xds_pwrite(f, "first", 5, 0), 5);
    ASSERT_EQ(xds_fsync(f), 0);
    ASSERT_EQ(xds_pwrite(f, "second", 6, 5), 6);
    daemon->kill();
    daemon = std::make_unique<Daemon>(folder.path(), port);
    ssize_t wrote = -1;
    for (auto end = Clock::now() + 20s; wrote < 0 && Clock::now() < end;) wrote = xds_pwrite(f, "third", 5, 11);
    ASSERT_EQ(wrote, 5) << xds_error();
    EXPECT_EQ(xds_fsync(f), -EIO);
    EXPECT_NE(std::string(xds_error()).find("restarted"), std::string::npos) << xds_error();
    EXPECT_EQ(xds_fsync(f), 0) << "told once";
    EXPECT_EQ(xds_ctx_close(ctx), 0);
}

TEST(Failure, NobodyListeningAndNobodyAnswering) {
    UniqueFd listener = std::move(*transport::listen_tcp("127.0.0.1:0"));
    std::string address = "127.0.0.1:" + std::to_string(*transport::port_of(listener.get()));
    auto start = Clock::now();
    connect(address, 300, -ETIMEDOUT);
    EXPECT_LT(Clock::now() - start, 20s);
    EXPECT_NE(std::string(xds_error()).find(address), std::string::npos) << xds_error();
    listener.reset();
    connect(address, 5000, -ECONNREFUSED);
    EXPECT_NE(std::string(xds_error()).find(address), std::string::npos) << xds_error();
    connect("127.0.0.1", 5000, -EINVAL);
    connect("", 5000, -EINVAL);
}

// A target whose answers the test writes by hand.
class Liar {
  public:
    using Answer = std::function<void(transport::Connection&, const wire::Header&, const wire::Body&, Liar&)>;

    explicit Liar(Answer answer)
        : answer_(std::move(answer)), listener_(std::move(*transport::listen_tcp("127.0.0.1:0"))) {
        reactor_ = std::move(*transport::Reactor::start("liar"));
        thread_ = std::thread([this] { serve(); });
    }
    ~Liar() {
        ::shutdown(listener_.get(), SHUT_RDWR);
        thread_.join();
        reactor_->call([&] {
            for (auto& end : ends_)
                if (end->connection != nullptr) end->connection->close({});
        });
        reactor_.reset();
    }
    std::string address() const { return "127.0.0.1:" + std::to_string(*transport::port_of(listener_.get())); }
    void reply(transport::Connection& connection, uint64_t request, const wire::Body& body, size_t data = 0) {
        auto* send = new Owned;
        send->header.request = request;
        send->header.credits = wire::type_of(body) == wire::Type::hello_reply ? 64 : 1;
        send->header.data_length = static_cast<uint32_t>(data);
        send->data.assign(data, 'L');
        send->part = {send->data.data(), data};
        send->iov = &send->part;
        send->iov_count = 1;
        send->sent = [](transport::Send& sent, const Status&) { delete static_cast<Owned*>(&sent); };
        if (!connection.send(*send, body).ok()) delete send;
    }

  private:
    struct Owned : transport::Send {
        std::string data;
        iovec part{};
    };
    struct End : transport::Owner {
        Liar* liar = nullptr;
        std::unique_ptr<transport::Connection> connection;
        void on_message(transport::Connection& from, const wire::Header& header, const wire::Body& body) override {
            if (std::holds_alternative<wire::Hello>(body))
                liar->reply(from, header.request, wire::HelloReply{});
            else
                liar->answer_(from, header, body, *liar);
            if (header.data_length > 0) from.skip();
        }
        void on_credits(transport::Connection&) override {}
        void on_closed(transport::Connection&, const Status&) override { connection.reset(); }
    };
    void serve() {
        for (;;) {
            UniqueFd socket(::accept(listener_.get(), nullptr, nullptr));
            if (!socket) return;
            reactor_->call([&] {
                ends_.push_back(std::make_unique<End>());
                ends_.back()->liar = this;
                ends_.back()->connection =
                    std::make_unique<transport::TcpConnection>(*reactor_, *ends_.back(), std::move(socket));
            });
        }
    }

    Answer answer_;
    UniqueFd listener_;
    std::unique_ptr<transport::Reactor> reactor_;
    std::vector<std::unique_ptr<End>> ends_;
    std::thread thread_;
};

// Opens and reads 100 bytes from a target that answers reads by `lie`; what the read came to.
ssize_t read_from(const Liar::Answer& lie, uint32_t timeout_ms = 3000) {
    Liar liar([&](transport::Connection& connection, const wire::Header& header, const wire::Body& body, Liar& self) {
        if (std::holds_alternative<wire::Open>(body)) return self.reply(connection, header.request, wire::OpenReply{});
        if (std::holds_alternative<wire::Close>(body))
            return self.reply(connection, header.request, wire::CloseReply{});
        lie(connection, header, body, self);
    });
    xds_ctx* ctx = connect(liar.address(), timeout_ms);
    xds_file* f = nullptr;
    EXPECT_EQ(xds_open(ctx, "f", O_RDONLY, 0, &f), 0) << xds_error();
    std::string memory(300, '#');
    ssize_t result = xds_pread(f, memory.data() + 100, 100, 0);
    EXPECT_EQ(memory.substr(0, 100), std::string(100, '#'));
    EXPECT_EQ(memory.substr(200), std::string(100, '#')) << "bytes behind the buffer were touched";
    EXPECT_EQ(xds_ctx_close(ctx), 0);
    return result;
}

TEST(Failure, WrongAnswersAreErrorsAndTouchNothingElse) {
    using namespace wire;
    auto lie = [](auto&& make) -> Liar::Answer {
        return [make](transport::Connection& c, const Header& h, const Body&, Liar& liar) { make(c, h, liar); };
    };
    EXPECT_EQ(read_from(lie([](auto& c, auto& h, Liar& l) {
                  l.reply(c, h.request, ReadReply{0, 0, 100, 0}, 100);
              })),
              100);
    EXPECT_EQ(read_from(lie([](auto& c, auto& h, Liar& l) {
                  l.reply(c, h.request, ReadReply{0, 0, 200, 0}, 200);
              })),
              -EPROTO)
        << "more than asked";
    EXPECT_EQ(read_from(lie([](auto& c, auto& h, Liar& l) {
                  l.reply(c, h.request, ReadReply{0, 0, 100, 0}, 200);
              })),
              -EPROTO)
        << "more data than said";
    EXPECT_EQ(read_from(lie([](auto& c, auto& h, Liar& l) {
                  l.reply(c, h.request, ReadReply{0, 0, 50, 0}, 50);
              })),
              -EPROTO)
        << "short without the end of the file";
    EXPECT_EQ(read_from(lie([](auto& c, auto& h, Liar& l) { l.reply(c, h.request, StatReply{}); })), -EPROTO);
    EXPECT_EQ(read_from(lie([](auto& c, auto& h, Liar& l) { l.reply(c, h.request, WriteReply{}, 100); })), -EPROTO);
    EXPECT_LT(read_from(lie([](auto& c, auto& h, Liar& l) { l.reply(c, h.request + 1, ReadReply{}); })), 0);
    EXPECT_LT(read_from(lie([](auto& c, auto&, Liar&) { c.close({}); })), 0);
    EXPECT_EQ(read_from(lie([](auto&, auto&, Liar&) {}), 300), -ETIMEDOUT) << "no answer at all";
    EXPECT_EQ(read_from(lie([](auto& c, auto& h, Liar& l) {
                  l.reply(c, h.request, Error{EIO, Cause::device, 0, 0, 0, "n7", "disk is broken"});
              })),
              -EIO);
    EXPECT_NE(std::string(xds_error()).find("node n7: disk is broken (device)"), std::string::npos) << xds_error();
}

}  // namespace
}  // namespace fabric::xds
