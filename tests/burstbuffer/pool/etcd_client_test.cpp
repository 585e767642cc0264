// The client against real etcd: what it reads and writes, and what it does when members go, users are asked for,
// certificates are wrong, revisions are compacted and leases run out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdio>
#include <map>
#include <mutex>

#include "burstbuffer/pool/etcd/client.h"
#include "burstbuffer/pool/etcd/json.h"
#include "burstbuffer/pool/etcd/watcher.h"
#include "tests/burstbuffer/pool/etcd_cluster.h"

namespace fabric::etcd {
namespace {

using namespace std::chrono_literals;
using testing::Cluster;
using ::testing::HasSubstr;

constexpr auto limit = 20s;  // a machine that does much else is slow

std::unique_ptr<Client> client_of(Options options) {
    auto client = Client::make(std::move(options));
    EXPECT_TRUE(client.ok()) << client.status().message();
    return client.ok() ? std::move(*client) : nullptr;
}

Options options_of(const Cluster& cluster) {
    Options options;
    options.endpoints = cluster.endpoints();
    return options;
}

#define START_CLUSTER(cluster, ...)               \
    auto cluster = Cluster::start({__VA_ARGS__}); \
    ASSERT_NE(cluster, nullptr) << "etcd did not start"

void put(Client& client, const std::string& key, const std::string& value) {
    Result<Reply> reply = client.call(Put{key, value, 0}, limit);
    ASSERT_TRUE(reply.ok()) << reply.status().message();
}

// What a watch told, as a table that it keeps.
class Table : public Watcher::Handler {
  public:
    void start_from(const Listing& listing) override {
        std::lock_guard lock(mutex_);
        ++starts_;
        keys_.clear();
        for (const KeyValue& key : listing.keys) keys_[key.key] = key.value;
        changed_.notify_all();
    }
    void changed(const std::vector<Event>& events) override {
        std::lock_guard lock(mutex_);
        for (const Event& event : events) {
            if (event.key.mod_revision < last_) disorder_ = true;
            last_ = event.key.mod_revision;
            ++events_;
            if (event.kind == Event::Kind::put) {
                keys_[event.key.key] = event.key.value;
            } else {
                keys_.erase(event.key.key);
            }
        }
        changed_.notify_all();
    }
    void trouble(const Status& status) override {
        std::lock_guard lock(mutex_);
        ++troubles_;
        trouble_ = status.message();
        changed_.notify_all();
    }
    template <typename Condition>
    bool wait(Condition condition) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, 60s, condition);
    }
    bool has(const std::string& key, const std::string& value) {
        return wait([&] { return keys_.contains(key) && keys_[key] == value; });
    }
    bool lacks(const std::string& key) {
        return wait([&] { return !keys_.contains(key); });
    }
    bool started(int times) {
        return wait([&] { return starts_ >= times; });
    }
    bool troubled() {
        return wait([&] { return troubles_ > 0; });
    }
    std::map<std::string, std::string> keys() {
        std::lock_guard lock(mutex_);
        return keys_;
    }
    int starts() {
        std::lock_guard lock(mutex_);
        return starts_;
    }
    int events() {
        std::lock_guard lock(mutex_);
        return events_;
    }
    bool in_order() {
        std::lock_guard lock(mutex_);
        return !disorder_;
    }
    std::string said() {
        std::lock_guard lock(mutex_);
        return trouble_;
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::string, std::string> keys_;
    int starts_ = 0, events_ = 0, troubles_ = 0;
    Revision last_ = 0;
    bool disorder_ = false;
    std::string trouble_;
};

TEST(Etcd, KeysTransactionsAndPages) {
    START_CLUSTER(cluster, .members = 1);
    auto client = client_of(options_of(*cluster));
    std::string odd("\0\xff/\n", 4);
    put(*client, "/t/" + odd, odd);
    Result<Reply> read = client->call(Range{"/t/" + odd, "", 0, 0}, limit);
    ASSERT_TRUE(read.ok()) << read.status().message();
    ASSERT_EQ(read->found.at(0).keys.size(), 1U);
    KeyValue key = read->found[0].keys[0];
    EXPECT_EQ(key.value, odd);
    EXPECT_EQ(key.version, 1);

    // Compare and swap: the first has it, the second reads who has.
    Txn txn{{Compare::modified_at(key.key, key.mod_revision)}, {Put{key.key, "new", 0}}, {Range{key.key, "", 0, 0}}};
    Result<Reply> first = client->call(txn, limit), second = client->call(txn, limit);
    ASSERT_TRUE(first.ok() && second.ok()) << first.status().message() << second.status().message();
    EXPECT_TRUE(first->succeeded);
    EXPECT_FALSE(second->succeeded);
    EXPECT_EQ(second->found.at(0).keys.at(0).value, "new");
    for (Compare::What what : {Compare::What::version, Compare::What::lease, Compare::What::create_revision}) {
        int64_t number = what == Compare::What::version ? 2 : what == Compare::What::lease ? 0 : key.create_revision;
        Result<Reply> reply = client->call(Txn{{{key.key, what, Compare::Relation::equal, number, {}}}, {}, {}}, limit);
        ASSERT_TRUE(reply.ok()) << reply.status().message();
        EXPECT_TRUE(reply->succeeded) << static_cast<int>(what);
    }
    Compare value{key.key, Compare::What::value, Compare::Relation::not_equal, 0, "old"};
    EXPECT_TRUE(client->call(Txn{{value}, {}, {}}, limit)->succeeded);

    for (int number = 0; number < 25; ++number) put(*client, "/p/" + std::to_string(100 + number), "x");
    Result<Listing> all = client->list({"/p/", end_of_prefix("/p/"), 0, 0}, limit, 7);
    ASSERT_TRUE(all.ok()) << all.status().message();
    ASSERT_EQ(all->keys.size(), 25U);
    for (size_t number = 0; number < 25; ++number)
        EXPECT_EQ(all->keys[number].key, "/p/" + std::to_string(100 + number));
    EXPECT_EQ(client->list({"/p/", end_of_prefix("/p/"), 0, 0}, limit, 7, 24).status().errno_value(), E2BIG);
    ASSERT_TRUE(client->call(Delete{"/p/", end_of_prefix("/p/")}, limit).ok());
    EXPECT_TRUE(client->list({"/p/", end_of_prefix("/p/"), 0, 0}, limit)->keys.empty());
}

TEST(Etcd, LeasesTakeTheirKeysAlong) {
    START_CLUSTER(cluster, .members = 1);
    auto client = client_of(options_of(*cluster));
    Result<Reply> grant = client->call(Grant{2}, limit);
    ASSERT_TRUE(grant.ok()) << grant.status().message();
    Result<Reply> other = client->call(Grant{600}, limit);
    ASSERT_TRUE(other.ok());
    Table table;
    Watcher watcher(*client, {"/l/", end_of_prefix("/l/"), 0, 0}, table);
    ASSERT_TRUE(client->call(Put{"/l/short", "s", grant->lease}, limit).ok());
    ASSERT_TRUE(client->call(Put{"/l/long", "l", other->lease}, limit).ok());
    ASSERT_TRUE(table.has("/l/short", "s"));
    Result<Reply> kept = client->call(KeepAlive{grant->lease}, limit);
    ASSERT_TRUE(kept.ok()) << kept.status().message();
    EXPECT_EQ(kept->lease, grant->lease);
    EXPECT_GE(kept->seconds, 1);
    // It runs out by itself.
    EXPECT_TRUE(table.lacks("/l/short"));
    Result<Reply> gone = client->call(KeepAlive{grant->lease}, limit);
    ASSERT_TRUE(gone.ok()) << gone.status().message();
    EXPECT_EQ(gone->seconds, 0);
    EXPECT_EQ(client->call(Revoke{grant->lease}, limit).status().errno_value(), ENOENT);
    EXPECT_EQ(client->call(Put{"/l/late", "x", grant->lease}, limit).status().errno_value(), ENOENT);
    ASSERT_TRUE(client->call(Revoke{other->lease}, limit).ok());
    EXPECT_TRUE(client->list({"/l/", end_of_prefix("/l/"), 0, 0}, limit)->keys.empty());
}

TEST(Etcd, AWatchGoesOnWhenItsMemberAndTheLeaderGo) {
    START_CLUSTER(cluster, .members = 3);
    auto client = client_of(options_of(*cluster));
    Table table;
    put(*client, "/w/0", "first");
    Watcher watcher(*client, {"/w/", end_of_prefix("/w/"), 0, 0}, table);
    ASSERT_TRUE(table.has("/w/0", "first"));
    int leader = cluster->leader();
    ASSERT_GE(leader, 0);
    int events = 0;
    // Each member goes and comes back, the leader first: a change of before, between and after is seen once.
    for (int round = 0; round < 3; ++round) {
        int member = (leader + round) % 3;
        put(*client, "/w/" + std::to_string(++events), "x");
        cluster->kill(member);
        std::string key = "/w/" + std::to_string(++events);
        // A change whose answer was lost is not repeated by the client, but by us: it is the same.
        Result<Reply> reply = client->call(Put{key, "y", 0}, limit);
        for (int tries = 0; tries < 20 && !reply.ok(); ++tries) reply = client->call(Put{key, "y", 0}, limit);
        ASSERT_TRUE(reply.ok()) << reply.status().message();
        EXPECT_TRUE(table.has(key, "y"));
        ASSERT_TRUE(cluster->restart(member));
    }
    put(*client, "/w/last", "z");
    EXPECT_TRUE(table.has("/w/last", "z"));
    EXPECT_EQ(table.starts(), 1);
    EXPECT_GE(table.events(), events + 1);
    EXPECT_TRUE(table.in_order());
    EXPECT_EQ(table.keys().size(), static_cast<size_t>(events) + 2);
}

TEST(Etcd, AMemberThatHangsIsPassedOver) {
    START_CLUSTER(cluster, .members = 3);
    Options options = options_of(*cluster);
    options.watch_silence = 1s;
    auto client = client_of(options);
    Table table;
    Watcher watcher(*client, {"/h/", end_of_prefix("/h/"), 0, 0}, table);
    put(*client, "/h/0", "a");
    ASSERT_TRUE(table.has("/h/0", "a"));
    // The one that the client asks first, since it has worked so far.
    constexpr int hung = 0;
    cluster->suspend(hung);
    Result<Reply> reply = client->call(Put{"/h/1", "b", 0}, limit);
    for (int tries = 0; tries < 20 && !reply.ok(); ++tries) reply = client->call(Put{"/h/1", "b", 0}, limit);
    EXPECT_TRUE(reply.ok()) << reply.status().message();
    EXPECT_TRUE(table.has("/h/1", "b"));
    cluster->resume(hung);
}

TEST(Etcd, WithoutAMajorityNothingIsDoneAndItIsSaid) {
    START_CLUSTER(cluster, .members = 3);
    // The watch is at the member that stays, whose connection does not break.
    Options options = options_of(*cluster);
    std::swap(options.endpoints.front(), options.endpoints.back());
    options.watch_silence = 120s;  // longer than is waited for trouble
    auto client = client_of(options);
    Table table;
    Watcher watcher(*client, {"/q/", end_of_prefix("/q/"), 0, 0}, table);
    put(*client, "/q/0", "a");
    ASSERT_TRUE(table.has("/q/0", "a"));
    cluster->kill(0);
    cluster->kill(1);
    EXPECT_FALSE(client->call(Range{"/q/0", "", 0, 0}, 2s).ok());
    EXPECT_FALSE(client->call(Put{"/q/1", "b", 0}, 2s).ok());
    EXPECT_TRUE(table.troubled());
    ASSERT_TRUE(cluster->restart(0));
    put(*client, "/q/2", "c");
    EXPECT_TRUE(table.has("/q/2", "c"));
}

// Its watcher stands still inside a change until it is let go.
class Held : public Table {
  public:
    void changed(const std::vector<Event>& events) override {
        Table::changed(events);
        std::unique_lock lock(gate_);
        EXPECT_TRUE(opened_.wait_for(lock, 60s, [&] { return open_; }));
    }
    void let_go() {
        std::lock_guard lock(gate_);
        open_ = true;
        opened_.notify_all();
    }

  private:
    std::mutex gate_;
    std::condition_variable opened_;
    bool open_ = false;
};

TEST(Etcd, ACompactedWatchReadsAnew) {
    START_CLUSTER(cluster, .members = 1);
    auto client = client_of(options_of(*cluster));
    Held table;
    put(*client, "/c/gone", "a");
    Watcher watcher(*client, {"/c/", end_of_prefix("/c/"), 0, 0}, table);
    ASSERT_TRUE(table.has("/c/gone", "a"));
    put(*client, "/c/x", "first");
    ASSERT_TRUE(table.has("/c/x", "first"));
    // The stream is dead, the watcher does not know it yet, and what it has missed is compacted.
    cluster->kill(0);
    ASSERT_TRUE(cluster->restart(0));
    ASSERT_TRUE(client->call(Delete{"/c/gone", ""}, limit).ok());
    for (int number = 0; number < 5; ++number) put(*client, "/c/x", std::to_string(number));
    Revision now = client->call(Range{"/c/x", "", 0, 0}, limit)->revision;
    auto connection = Connection::make(client->options());
    ASSERT_TRUE(connection.ok());
    std::string compact = R"({"revision":")" + std::to_string(now) + R"(","physical":true})";
    Answer answer = (*connection)->post({cluster->endpoint(0) + "/v3/kv/compaction", compact, {}, limit, true});
    ASSERT_EQ(answer.http, 200) << answer.body;
    EXPECT_EQ(client->call(Range{"/c/x", "", 0, now - 2}, limit).status().errno_value(), ESTALE);
    EXPECT_EQ(table.starts(), 1);
    table.let_go();
    ASSERT_TRUE(table.started(2));
    EXPECT_EQ(table.keys(), (std::map<std::string, std::string>{{"/c/x", "4"}}));
    put(*client, "/c/x", "last");
    EXPECT_TRUE(table.has("/c/x", "last"));
    EXPECT_EQ(table.starts(), 2);
}

TEST(Etcd, UsersLogInAndStayLoggedIn) {
    START_CLUSTER(cluster, .members = 1);
    auto open = client_of(options_of(*cluster));
    auto connection = Connection::make(open->options());
    ASSERT_TRUE(connection.ok());
    auto post = [&](const std::string& path, const std::string& body) {
        Answer answer = (*connection)->post({cluster->endpoint(0) + path, body, {}, limit, true});
        EXPECT_EQ(answer.http, 200) << path << answer.body;
    };
    post("/v3/auth/user/add", R"({"name":"root","password":"r\"oot"})");
    post("/v3/auth/role/add", R"({"name":"root"})");
    post("/v3/auth/user/grant", R"({"user":"root","role":"root"})");
    post("/v3/auth/user/add", R"({"name":"node","password":"pw"})");
    post("/v3/auth/role/add", R"({"name":"r"})");
    post("/v3/auth/role/grant", R"({"name":"r","perm":{"permType":"READWRITE","key":"L2Ev","range_end":"L2Ew"}})");
    post("/v3/auth/user/grant", R"({"user":"node","role":"r"})");
    post("/v3/auth/enable", "{}");

    EXPECT_FALSE(open->call(Put{"/a/x", "1", 0}, 5s).ok());
    Options options = options_of(*cluster);
    options.user = "node";
    options.password = "wrong";
    Status refused = client_of(options)->call(Put{"/a/x", "1", 0}, limit).status();
    EXPECT_EQ(refused.errno_value(), EACCES) << refused.message();
    EXPECT_THAT(refused.message(), HasSubstr("user 'node' cannot log in"));

    options.password = "pw";
    auto node = client_of(options);
    Table table;
    Watcher watcher(*node, {"/a/", end_of_prefix("/a/"), 0, 0}, table);
    put(*node, "/a/x", "1");
    EXPECT_TRUE(table.has("/a/x", "1"));
    EXPECT_EQ(node->call(Put{"/b/x", "1", 0}, limit).status().errno_value(), EACCES);

    // A password that is set anew, to the same one, ends every login of its user.
    Answer login =
        (*connection)
            ->post({cluster->endpoint(0) + "/v3/auth/authenticate", login_body("root", "r\"oot"), {}, limit, true});
    Result<std::string> token = parse_token(login.body);
    ASSERT_TRUE(token.ok()) << login.body;
    std::string same = R"({"name":"node","password":"pw"})";
    Answer set = (*connection)->post({cluster->endpoint(0) + "/v3/auth/user/changepw", same, *token, limit, true});
    ASSERT_EQ(set.http, 200) << set.body;
    put(*node, "/a/y", "2");
    EXPECT_TRUE(table.has("/a/y", "2"));
    options.user = "root";
    options.password = "r\"oot";
    put(*client_of(options), "/b/x", "1");
}

TEST(Etcd, CertificatesAreChecked) {
    START_CLUSTER(cluster, .members = 1, .tls = true);
    Options options = options_of(*cluster);
    options.ca = cluster->ca();
    options.certificate = cluster->certificate();
    options.key = cluster->key();
    auto client = client_of(options);
    Table table;
    Watcher watcher(*client, {"/s/", end_of_prefix("/s/"), 0, 0}, table);
    put(*client, "/s/x", "1");
    EXPECT_TRUE(table.has("/s/x", "1"));

    Options no_certificate = options;
    no_certificate.certificate = no_certificate.key = "";
    EXPECT_FALSE(client_of(no_certificate)->call(Range{"/s/x", "", 0, 0}, 1s).ok());
    Options other_authority = options;
    other_authority.ca = cluster->folder() + "/other.pem";
    Status status = client_of(other_authority)->call(Range{"/s/x", "", 0, 0}, 1s).status();
    EXPECT_EQ(status.errno_value(), EACCES) << status.message();
    EXPECT_THAT(status.message(), HasSubstr(cluster->endpoint(0)));
    Options plain = options;
    plain.endpoints = {"http" + cluster->endpoint(0).substr(5)};
    EXPECT_FALSE(client_of(plain)->call(Range{"/s/x", "", 0, 0}, 1s).ok());
}

TEST(Etcd, StopEndsWhatWaits) {
    Options options;
    options.endpoints = {"http://127.0.0.1:1"};
    auto client = client_of(options);
    std::thread stopper([&] { client->stop(); });
    Result<Reply> reply = client->call(Range{"/x", "", 0, 0}, 60s);
    stopper.join();
    EXPECT_EQ(reply.status().errno_value(), ECANCELED);
}

TEST(Etcd, WrongOptionsAreNamed) {
    Options options;
    EXPECT_THAT(Client::make(options).status().message(), HasSubstr("no endpoint"));
    for (const char* wrong : {"127.0.0.1:2379", "ftp://x", "http://", "http://a/b", "http://u@h:1"}) {
        options.endpoints = {wrong};
        EXPECT_THAT(Client::make(options).status().message(), HasSubstr(wrong));
    }
    options.endpoints = {"https://h:1"};
    options.certificate = "/x";
    EXPECT_THAT(Client::make(options).status().message(), HasSubstr("go together"));
}

}  // namespace
}  // namespace fabric::etcd

int main(int argc, char** argv) {
    ::testing::InitGoogleTest(&argc, argv);
    if (fabric::etcd::testing::output_of("command -v etcd").empty()) {
        std::puts("SKIP: pool.etcd_client: there is no etcd: install etcd-server");
        return 77;
    }
    return RUN_ALL_TESTS();
}
