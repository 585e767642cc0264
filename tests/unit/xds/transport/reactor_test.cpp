#include "xds/transport/reactor.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <vector>

namespace fabric::xds::transport {
namespace {

TEST(Reactor, RunsPostedTasksInOrderFromManyThreads) {
    auto reactor = std::move(*Reactor::start("test"));
    struct Step : Task {
        std::vector<int>* seen = nullptr;
        int number = 0;
    };
    constexpr int threads = 4, each = 5000;
    std::vector<std::vector<int>> seen(threads);
    std::vector<std::vector<Step>> steps(threads, std::vector<Step>(each));
    std::vector<std::thread> posters;
    for (int t = 0; t < threads; ++t)
        posters.emplace_back([&, t] {
            for (int i = 0; i < each; ++i) {
                Step& step = steps[t][i];
                step.seen = &seen[t];
                step.number = i;
                step.run = [](Task& task) {
                    auto& self = static_cast<Step&>(task);
                    self.seen->push_back(self.number);
                };
                reactor->post(step);
            }
        });
    for (auto& poster : posters) poster.join();
    reactor.reset();  // runs what is left
    for (const auto& numbers : seen) {
        ASSERT_EQ(numbers.size(), size_t{each});
        for (int i = 0; i < each; ++i) ASSERT_EQ(numbers[i], i);
    }
}

TEST(Reactor, CallReturnsValuesAndRunsOnTheThread) {
    auto reactor = std::move(*Reactor::start("test"));
    EXPECT_FALSE(reactor->on_thread());
    EXPECT_TRUE(reactor->call([&] { return reactor->on_thread(); }));
    int ran = 0;
    for (int i = 0; i < 2000; ++i) reactor->call([&] { ++ran; });
    EXPECT_EQ(ran, 2000);
}

TEST(Reactor, TimersFireInOrderAndDisarmedOnesDoNot) {
    auto reactor = std::move(*Reactor::start("test"));
    struct Alarm : Timer {
        std::vector<int>* seen = nullptr;
        std::promise<void>* last = nullptr;
        int number = 0;
    };
    std::vector<int> seen;
    std::promise<void> last;
    Alarm alarms[4];
    auto now = std::chrono::steady_clock::now();
    reactor->call([&] {
        const int delays[] = {60, 20, 40, 30};
        for (int i = 0; i < 4; ++i) {
            alarms[i].number = delays[i];
            alarms[i].seen = &seen;
            alarms[i].deadline = now + std::chrono::milliseconds(delays[i]);
            alarms[i].expired = [](Timer& timer) {
                auto& self = static_cast<Alarm&>(timer);
                self.seen->push_back(self.number);
                if (self.last != nullptr) self.last->set_value();
            };
            reactor->arm(alarms[i]);
        }
        alarms[0].last = &last;
        reactor->disarm(alarms[3]);
        reactor->disarm(alarms[3]);
    });
    last.get_future().get();
    EXPECT_EQ(seen, (std::vector<int>{20, 40, 60}));
    EXPECT_GE(std::chrono::steady_clock::now() - now, std::chrono::milliseconds(60));
}

TEST(Reactor, CancelledOperationsComplete) {
    auto reactor = std::move(*Reactor::start("test"));
    int pair[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    struct Receive : Operation {
        std::promise<int> result;
    } receive;
    char byte = 0;
    receive.complete = [](Operation& operation, int result) {
        static_cast<Receive&>(operation).result.set_value(result);
    };
    reactor->call(
        [&] { reactor->submit(receive, [&](io_uring_sqe* sqe) { io_uring_prep_recv(sqe, pair[0], &byte, 1, 0); }); });
    reactor->call([&] { reactor->cancel(receive); });
    EXPECT_EQ(receive.result.get_future().get(), -ECANCELED);
    close(pair[0]);
    close(pair[1]);
}

TEST(Reactor, MoreOperationsThanTheRingHolds) {
    auto reactor = std::move(*Reactor::start("test"));
    struct Nop : Operation {
        std::atomic<int>* done = nullptr;
    };
    std::vector<Nop> nops(5000);
    std::atomic<int> done{0};
    reactor->call([&] {
        for (Nop& nop : nops) {
            nop.done = &done;
            nop.complete = [](Operation& operation, int) { ++*static_cast<Nop&>(operation).done; };
            reactor->submit(nop, [](io_uring_sqe* sqe) { io_uring_prep_nop(sqe); });
        }
    });
    reactor.reset();
    EXPECT_EQ(done, 5000);
}

}  // namespace
}  // namespace fabric::xds::transport
