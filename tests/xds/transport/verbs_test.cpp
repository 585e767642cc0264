// The suite over RDMA, and what is RDMA's own: keys, their end, damage and death. Needs an RDMA device, whose address
// is in XDS_TEST_RDMA.
#include <gtest/gtest.h>

#include <future>

#include "tests/xds/transport/suite.h"
#include "xds/memory/host.h"

namespace fabric::xds::transport {
namespace {

// A listener that hands one request over to whoever waits for it.
struct Meeting {
    Side& side;
    std::unique_ptr<VerbsListener> listener;
    std::promise<VerbsRequest> request;
    std::future<VerbsRequest> coming = request.get_future();
    int port = 0;

    Meeting(Side& where, uint16_t first) : side(where) {
        for (port = first; port < first + 100 && listener == nullptr; ++port) {
            auto made = side.reactor->call([&] {
                return VerbsListener::listen(side.rdma->lane(), test_address(port),
                                             [this](VerbsRequest came) { request.set_value(std::move(came)); });
            });
            if (made.ok()) listener = std::move(*made);
        }
        --port;
        EXPECT_NE(listener, nullptr);
    }
    ~Meeting() {
        side.reactor->call([&] { listener.reset(); });
    }
    Endpoint::Make accepting(unsigned queues) {
        return [this, queues](Reactor&, Owner& owner, const Endpoint::Ready& ready) {
            // The listener is on the same thread: wait in a task of its own.
            auto* waiting = new Waiting;
            waiting->meeting = this;
            waiting->owner = &owner;
            waiting->ready = ready;
            waiting->queues = queues;
            waiting->run = [](Task& task) { static_cast<Waiting&>(task).look(); };
            side.reactor->post(*waiting);
        };
    }
    struct Waiting : Task {
        Meeting* meeting;
        Owner* owner;
        Endpoint::Ready ready;
        unsigned queues;
        void look() {
            if (meeting->coming.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
                return meeting->side.reactor->post(*this);
            VerbsOptions options;
            options.queues = queues;
            auto made = accept(meeting->coming.get(), meeting->side.rdma->lane(), *owner, meeting->side.rdma->domains(),
                               options);
            if (made.ok())
                ready(std::unique_ptr<Connection>(std::move(*made)));
            else
                ready(made.status());
            delete this;
        }
    };
};

uint16_t some_port() {
    static uint16_t next = static_cast<uint16_t>(20000 + getpid() % 20000);
    return next += 101;
}

Pair make_pair(Side& client, Side& target, unsigned client_queues, unsigned target_queues) {
    auto meeting = std::make_shared<Meeting>(target, some_port());
    VerbsOptions options;
    options.queues = client_queues;
    return {dial(client, test_address(meeting->port), options), meeting->accepting(target_queues), meeting};
}

Pair make_one_queue(Side& client, Side& target) { return make_pair(client, target, 1, 1); }
Pair make_four_queues(Side& client, Side& target) { return make_pair(client, target, 4, 4); }
Pair make_fewer_granted(Side& client, Side& target) { return make_pair(client, target, 8, 3); }

INSTANTIATE_TEST_SUITE_P(Verbs, TransportSuite,
                         testing::Values(&make_one_queue, &make_four_queues, &make_fewer_granted));

// Two ends that the test drives by hand: the client lends memory, the target moves data.
class Verbs : public testing::Test {
  protected:
    void SetUp() override {
        pair_ = make_four_queues(client_side_, target_side_);
        client_ = std::make_unique<Endpoint>(*client_side_.reactor);
        target_ = std::make_unique<Endpoint>(*target_side_.reactor);
        client_->begin(pair_.client);
        target_->begin(pair_.target);
        ASSERT_TRUE(client_->connected().ok());
        ASSERT_TRUE(target_->connected().ok());
        memory_.reset(static_cast<char*>(std::aligned_alloc(2 << 20, 2 << 20)));
        std::memset(memory_.get(), '#', 2 << 20);
    }
    void TearDown() override {
        client_.reset();
        target_.reset();
        pair_ = {};
    }
    // What the target does with RDMA to a segment comes to.
    Status write_to(const wire::Segment& segment, unsigned queue, size_t length, uint32_t invalidate = 0) {
        struct Writing : Send {
            std::promise<Status> done;
            iovec part{};
            wire::Segment segment;
        };
        auto writing = std::make_unique<Writing>();
        auto outcome = writing->done.get_future();
        target_->with_connection([&](Connection& connection) {
            writing->segment = segment;
            writing->part = {memory_.get(), length};
            writing->iov = &writing->part;
            writing->iov_count = 1;
            writing->segments = {&writing->segment, 1};
            writing->header.data_length = static_cast<uint32_t>(length);
            writing->queue = queue;
            writing->invalidate = invalidate;
            writing->sent = [](Send& send, const Status& status) {
                static_cast<Writing&>(send).done.set_value(status);
            };
            if (Status status = connection.send(*writing, wire::Goodbye{wire::Cause::none, "written"}); !status.ok())
                writing->done.set_value(status);
        });
        if (outcome.wait_for(std::chrono::seconds(60)) != std::future_status::ready)
            return Status::from_errno(ETIMEDOUT, "write");
        return outcome.get();
    }
    struct Lent : Exposure {
        std::promise<void> over;
    };
    // Lends memory without a request: windows are bound by a message that names them.
    std::unique_ptr<Lent> lend(char* memory, size_t length, bool kept, bool announce) {
        auto lent = std::make_unique<Lent>();
        lent->ended = [](Exposure& exposure) { static_cast<Lent&>(exposure).over.set_value(); };
        client_->with_connection([&](Connection& connection) {
            memory::Place place = kept ? memory::host_place(memory, length) : memory::Place{&memory::host(), {}};
            Status status = connection.expose(*lent, place, memory, length, memory::Access::write);
            EXPECT_TRUE(status.ok()) << status.message();
            announcement_.sent = [](Send&, const Status&) {};
            announcement_.exposure = lent.get();
            announcement_.queue = lent->queue;
            if (!announce) return;
            EXPECT_TRUE(connection.send(announcement_, wire::Goodbye{wire::Cause::none, "lent"}).ok());
        });
        if (announce) {
            EXPECT_TRUE(target_->next().ok());
        }
        return lent;
    }
    void end(Lent& lent) {
        auto over = lent.over.get_future();
        client_->with_connection([&](Connection& connection) { connection.end_access(lent); });
        ASSERT_EQ(over.wait_for(std::chrono::seconds(60)), std::future_status::ready);
    }

    struct Free {
        void operator()(char* memory) const { std::free(memory); }
    };
    Side client_side_{"client"}, target_side_{"target"};
    Pair pair_;
    std::unique_ptr<char, Free> memory_;
    Send announcement_;
    std::unique_ptr<Endpoint> client_, target_;
};

// Of memory that is kept registered, by a window where the device has them, and of memory registered for one request.
TEST_F(Verbs, AKeyIsRefusedAfterItsRequestEnded) {
    for (bool kept : {true, false}) {
        if (kept == false) {
            TearDown();
            SetUp();
        }
        std::vector<char> memory(8192, '-');
        auto lent = lend(memory.data(), memory.size(), kept, true);
        std::printf("kept %d: %s\n", kept, lent->by_window ? "a memory window" : "registered for the request");
        ASSERT_TRUE(write_to(lent->segment, lent->queue, 5000).ok());
        ASSERT_TRUE(client_->next().ok());
        EXPECT_EQ(std::string(memory.data(), 5001), std::string(5000, '#') + "-");
        wire::Segment segment = lent->segment;
        unsigned queue = lent->queue;
        end(*lent);
        std::fill(memory.begin(), memory.end(), '-');
        Status status = write_to(segment, queue, 5000);
        EXPECT_EQ(status.errno_value(), EACCES) << status.message();
        EXPECT_EQ(std::string(memory.data(), memory.size()), std::string(8192, '-'));
        EXPECT_FALSE(target_->closed().ok());
    }
}

// The message that ends the request ends the key with it; the client sees that and does not end it again.
TEST_F(Verbs, AKeyIsRefusedAfterTheTargetEndedIt) {
    std::vector<char> memory(8192, '-');
    for (int round = 0; round < 300; ++round) {
        auto lent = lend(memory.data(), memory.size(), true, true);
        ASSERT_TRUE(lent->by_window);
        ASSERT_TRUE(write_to(lent->segment, lent->queue, 5000, lent->segment.rkey).ok());
        ASSERT_TRUE(client_->next().ok());
        ASSERT_EQ(std::string(memory.data(), 5001), std::string(5000, '#') + "-");
        end(*lent);
        std::fill(memory.begin(), memory.end(), '-');
        if (round + 1 < 300) continue;
        Status status = write_to(lent->segment, lent->queue, 5000);
        EXPECT_EQ(status.errno_value(), EACCES) << status.message();
        EXPECT_EQ(std::string(memory.data(), memory.size()), std::string(8192, '-'));
    }
}

TEST_F(Verbs, AKeyReachesItsOwnMemoryAlone) {
    std::vector<char> memory(12288, '-');
    auto lent = lend(memory.data() + 4096, 4096, true, true);
    wire::Segment wider = lent->segment;
    wider.address -= 1;
    wider.length += 1;
    Status status = write_to(wider, lent->queue, 100);
    EXPECT_EQ(status.errno_value(), EACCES) << status.message();
    EXPECT_EQ(std::string(memory.data(), memory.size()), std::string(12288, '-'));
    client_->close();
    (void)client_->closed();
}

TEST_F(Verbs, ManyRequestsUseFewWindowsAgain) {
    std::vector<char> memory(1 << 20, '-');
    for (int round = 0; round < 600; ++round) {
        auto lent = lend(memory.data(), memory.size(), false, false);
        end(*lent);
    }
    auto lent = lend(memory.data(), memory.size(), true, true);
    ASSERT_TRUE(write_to(lent->segment, lent->queue, 1 << 20).ok());
    end(*lent);
    EXPECT_EQ(memory.back(), '#');
}

TEST_F(Verbs, NobodyListeningIsNamed) {
    Side side("lonely");
    Endpoint endpoint(*side.reactor);
    std::string address = test_address(some_port());
    endpoint.begin(dial(side, address));
    Status status = endpoint.connected();
    EXPECT_EQ(status.errno_value(), ECONNREFUSED) << status.message();
    EXPECT_NE(status.message().find(address), std::string::npos) << status.message();
}

}  // namespace
}  // namespace fabric::xds::transport

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    if (!fabric::xds::transport::over_rdma()) {
        std::printf("SKIP: xds over verbs: XDS_TEST_RDMA does not name the address of an RDMA device\n");
        return 77;
    }
    return RUN_ALL_TESTS();
}
