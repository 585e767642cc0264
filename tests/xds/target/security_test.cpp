// Who gets in, and what they may touch.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "tests/xds/target/peer.h"
#include "xds/security/agent.h"

namespace fabric::xds {
namespace {

using security::Capability;
using security::Keyring;
using security::Ticket;

const std::string key_text = "1 " + std::string(64, '1') + "\n";

security::Id id(unsigned value) {
    security::Id result{};
    result[0] = static_cast<std::byte>(value);
    return result;
}

class Security : public testing::Test {
  protected:
    void SetUp() override {
        if (geteuid() != 0) GTEST_SKIP() << "SKIP: changing identities needs root";
        write_keys(key_text);
        config.listen = transport::test_address(0);
        if (transport::over_rdma()) config.rdma = target::Rdma::required;
        config.root = folder.path();
        config.node = "secure";
        config.lanes = 1;
        config.key_file = secrets.path() + "/keys";
        config.cluster = id(1);
        auto started = target::Target::start(config);
        ASSERT_TRUE(started.ok()) << started.status().message();
        target = std::move(*started);
        keys = *Keyring::parse(key_text, "test");
    }
    void write_keys(const std::string& text) {
        std::string path = secrets.path() + "/keys";
        put(path, text);
        chmod(path.c_str(), 0600);
    }
    static Ticket user(uint32_t uid, uint32_t gid, std::vector<uint32_t> groups = {}) {
        return {id(1), id(uid & 255), target::wall_clock_ns() + 60'000'000'000, uid, gid, std::move(groups)};
    }
    void own(const std::string& name, uid_t uid, gid_t gid, mode_t mode) {
        put(folder.path() + "/" + name, "contents");
        ASSERT_EQ(chown((folder.path() + "/" + name).c_str(), uid, gid), 0);
        ASSERT_EQ(chmod((folder.path() + "/" + name).c_str(), mode), 0);
    }
    std::unique_ptr<Peer> peer_of(const Ticket& ticket) {
        auto peer = std::make_unique<Peer>(target->port());
        Arrived answer = peer->greet(keys.get(), &ticket);
        EXPECT_EQ(answer.header.type, wire::Type::hello_reply) << answer.text;
        return peer;
    }

    TemporaryFolder folder, secrets;
    target::Config config;
    std::unique_ptr<target::Target> target;
    std::shared_ptr<Keyring> keys;
};

TEST_F(Security, NobodyWithoutAValidTicketGetsIn) {
    auto refused = [&](auto&& change) {
        Peer peer(target->port());
        Arrived answer = change(peer);
        EXPECT_EQ(error_of(answer), EACCES) << answer.text;
        EXPECT_FALSE(peer.end->closed().ok());
        return answer;
    };
    Ticket ticket = user(1000, 1000);
    refused([&](Peer& peer) { return peer.greet(); });
    auto other_keys = *Keyring::parse("1 " + std::string(64, '2'), "forged");
    refused([&](Peer& peer) { return peer.greet(other_keys.get(), &ticket); });
    Ticket expired = ticket;
    expired.expiry_ns = target::wall_clock_ns() - 1;
    refused([&](Peer& peer) { return peer.greet(keys.get(), &expired); });
    Ticket elsewhere = ticket;
    elsewhere.cluster = id(9);
    refused([&](Peer& peer) { return peer.greet(keys.get(), &elsewhere); });
    Arrived late = refused([&](Peer& peer) {
        peer.hello.time_ns = target::wall_clock_ns() - 3600'000'000'000;
        return peer.greet(keys.get(), &ticket);
    });
    EXPECT_EQ(number(late, "cause"), static_cast<uint64_t>(wire::Cause::access));
    // A ticket that was overheard, without its secret.
    refused([&](Peer& peer) {
        std::string sealed = *security::seal(*keys, ticket);
        wire::Hello hello;
        hello.cluster = id(1);
        hello.time_ns = target::wall_clock_ns();
        hello.ticket = sealed;
        return peer.ask(hello);
    });
    EXPECT_TRUE(peer_of(ticket)->end != nullptr);
}

TEST_F(Security, AHelloIsNotTakenTwice) {
    Ticket ticket = user(1000, 1000);
    std::string sealed = *security::seal(*keys, ticket);
    wire::Hello hello;
    hello.cluster = id(1);
    hello.nonce = security::random_id();
    hello.time_ns = target::wall_clock_ns();
    hello.ticket = sealed;
    std::vector<std::byte> bytes(wire::max_message);
    size_t size = *wire::encode({}, hello, bytes);
    hello.proof = security::hello_proof(*security::secret_of(*keys, sealed),
                                        wire::Bytes(bytes).first(size).subspan(wire::header_size));
    Peer first(target->port()), second(target->port());
    EXPECT_EQ(first.ask(hello).header.type, wire::Type::hello_reply);
    EXPECT_EQ(error_of(second.ask(hello)), EACCES);
}

TEST_F(Security, FilesOpenAsTheFileSystemAllowsTheUser) {
    own("private", 1000, 1000, 0600);
    own("group", 0, 2000, 0640);
    own("all", 0, 0, 0644);
    auto may = [&](const Ticket& ticket, const std::string& name, uint32_t flags) {
        return error_of(peer_of(ticket)->ask(wire::Open{flags, 0, name, {}, {}}));
    };
    using namespace wire::open_flags;
    EXPECT_EQ(may(user(1000, 1000), "private", read | write), 0);
    EXPECT_EQ(may(user(1001, 1000), "private", read), EACCES);
    EXPECT_EQ(may(user(1001, 1001, {5, 2000}), "group", read), 0);
    EXPECT_EQ(may(user(1001, 1001, {5, 2000}), "group", write), EACCES);
    EXPECT_EQ(may(user(1001, 2000), "group", read), 0);
    EXPECT_EQ(may(user(1001, 1001), "group", read), EACCES);
    EXPECT_EQ(may(user(1001, 1001), "all", read), 0);
    EXPECT_EQ(may(user(1001, 1001), "all", write), EACCES);
    EXPECT_EQ(may(user(1001, 1001), "missing", read), ENOENT);
    // In a folder that the user may not search, nothing is to be learned.
    std::filesystem::create_directory(folder.path() + "/closed");
    put(folder.path() + "/closed/there", "x");
    chmod((folder.path() + "/closed").c_str(), 0700);
    EXPECT_EQ(may(user(1001, 1001), "closed/there", read), EACCES);
    EXPECT_EQ(may(user(1001, 1001), "closed/not-there", read), EACCES);
    // Created files belong to who created them.
    EXPECT_EQ(may(user(1003, 1004), "mine", read | write | create), 0);
    struct stat status;
    ASSERT_EQ(stat((folder.path() + "/mine").c_str(), &status), 0);
    EXPECT_EQ(status.st_uid, 1003u);
    EXPECT_EQ(status.st_gid, 1004u);
}

TEST_F(Security, SmallFileBatchesAskAsTheUserToo) {
    own("private", 1000, 1000, 0600);
    own("all", 0, 0, 0644);
    std::vector<wire::ManyEntry> entries = {{0, 7, 0, 100, 0, 0}, {7, 3, 0, 100, 0, 0}};
    Arrived answer = peer_of(user(1001, 1001))
                         ->ask(wire::ReadMany{0, 0, std::span<const wire::ManyEntry>(entries), "privateall", {}});
    EXPECT_EQ(number(answer, "results[0].error"), static_cast<uint64_t>(EACCES));
    EXPECT_EQ(number(answer, "results[1].error"), 0u);
    EXPECT_EQ(answer.data, "contents");
}

TEST_F(Security, CapabilitiesOpenByIdForTheirOwnerOnly) {
    own("private", 1000, 1000, 0600);
    auto owner = peer_of(user(1000, 1000));
    Arrived opened = owner->ask(wire::Open{wire::open_flags::read, 0, "private", {}, {}});
    std::string hex = text(opened, "capability"), capability;
    for (size_t i = 0; i < hex.size(); i += 2)
        capability += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    auto by_id = [&](Peer& peer, const std::string& bytes, uint32_t flags = wire::open_flags::read) {
        return error_of(peer.ask(wire::Open{flags, 0, {}, {}, bytes}));
    };
    auto again = peer_of(user(1000, 1000)), other = peer_of(user(1001, 1000));
    EXPECT_EQ(by_id(*again, capability), 0);
    EXPECT_EQ(by_id(*again, capability, wire::open_flags::write), EACCES) << "only the rights it grants";
    EXPECT_EQ(by_id(*other, capability), EACCES);
    EXPECT_EQ(by_id(*again, ""), EACCES);
    std::string forged = capability;
    forged[10] = static_cast<char>(forged[10] ^ 1);
    EXPECT_EQ(by_id(*again, forged), EACCES);
    // A capability for a range, and one that runs out, made by somebody with the key.
    Capability ranged = *security::open_capability(*keys, capability, {id(1), target::wall_clock_ns()});
    ranged.offset = 2;
    ranged.length = 3;
    std::string sealed = *security::seal(*keys, ranged);
    uint32_t handle =
        static_cast<uint32_t>(number(again->ask(wire::Open{wire::open_flags::read, 0, {}, {}, sealed}), "handle"));
    EXPECT_EQ(again->ask(wire::Read{handle, 0, 2, 3, 0, 0, {}}).data, "nte");
    EXPECT_EQ(error_of(again->ask(wire::Read{handle, 0, 2, 4, 0, 0, {}})), EACCES);
    EXPECT_EQ(error_of(again->ask(wire::Read{handle, 0, 1, 2, 0, 0, {}})), EACCES);
    ranged.expiry_ns = target::wall_clock_ns() - 1;
    EXPECT_EQ(by_id(*again, *security::seal(*keys, ranged)), EACCES);
    // The file is gone: only who had the right learns so.
    unlink((folder.path() + "/private").c_str());
    owner->ask(wire::Close{static_cast<uint32_t>(number(opened, "handle"))});
    EXPECT_EQ(by_id(*other, capability), EACCES);
}

TEST_F(Security, NoPathLeadsOut) {
    put(secrets.path() + "/secret", "secret");
    std::filesystem::create_symlink(secrets.path() + "/secret", folder.path() + "/absolute");
    std::filesystem::create_symlink("../" + std::filesystem::path(secrets.path()).filename().string() + "/secret",
                                    folder.path() + "/relative");
    std::filesystem::create_directory(folder.path() + "/sub");
    put(folder.path() + "/inside", "inside");
    std::filesystem::create_symlink("../inside", folder.path() + "/sub/link");
    auto root = peer_of(user(0, 0));
    std::string outside = std::filesystem::path(secrets.path()).filename().string() + "/secret";
    for (const std::string& path : {std::string("absolute"), std::string("relative"), "../" + outside,
                                    "sub/../../" + outside, std::string("/../../etc/passwd")}) {
        int error = error_of(root->ask(wire::Open{wire::open_flags::read, 0, path, {}, {}}));
        EXPECT_TRUE(error == EXDEV || error == ENOENT) << path << ": " << error;
    }
    EXPECT_EQ(error_of(root->ask(wire::Open{wire::open_flags::read, 0, "sub/link", {}, {}})), 0);
    EXPECT_EQ(error_of(root->ask(wire::Open{wire::open_flags::read, 0, "/sub/../inside", {}, {}})), 0);
    EXPECT_EQ(error_of(root->ask(wire::Open{wire::open_flags::read, 0, std::string("inside\0x", 8), {}, {}})), EINVAL);
    EXPECT_EQ(error_of(root->ask(wire::Open{wire::open_flags::read, 0, "sub", {}, {}})), EISDIR);
    ASSERT_EQ(mkfifo((folder.path() + "/pipe").c_str(), 0666), 0);
    EXPECT_EQ(error_of(root->ask(wire::Open{wire::open_flags::read, 0, "pipe", {}, {}})), EINVAL);
}

TEST_F(Security, KeysRotateWithoutARestart) {
    Ticket ticket = user(1000, 1000);
    auto before = peer_of(ticket);
    write_keys("2 " + std::string(64, '2') + "\n");
    ASSERT_TRUE(target->reload_keys().ok());
    Peer old(target->port());
    EXPECT_EQ(error_of(old.greet(keys.get(), &ticket)), EACCES);
    keys = *Keyring::parse("2 " + std::string(64, '2'), "test");
    EXPECT_TRUE(peer_of(ticket)->end != nullptr);
    own("all", 0, 0, 0644);
    EXPECT_EQ(error_of(before->ask(wire::Open{wire::open_flags::read, 0, "all", {}, {}})), 0) << "connections go on";
    write_keys("nonsense");
    EXPECT_FALSE(target->reload_keys().ok());
    EXPECT_TRUE(peer_of(ticket)->end != nullptr) << "the keys that were there stay";
}

TEST_F(Security, TheAgentVouchesForALocalUserAndLibxdsUsesIt) {
    std::string socket = secrets.path() + "/agent";
    chmod(secrets.path().c_str(), 0755);
    auto agent = security::Agent::start(socket, keys, id(1), 60);
    ASSERT_TRUE(agent.ok()) << agent.status().message();
    own("private", 1000, 1000, 0600);
    std::string address = transport::test_address(target->port());
    // A child becomes another user: root opens what uid 1001 may not.
    auto open_as = [&](uid_t uid) {
        pid_t child = fork();
        if (child == 0) {
            if (setgid(uid) != 0 || setuid(uid) != 0) _exit(99);
            xds_options options{};
            options.size = sizeof options;
            options.address = address.c_str();
            options.agent = socket.c_str();
            options.timeout_ms = 10'000;
            xds_ctx* ctx = nullptr;
            xds_file* file = nullptr;
            if (xds_ctx_open(&options, &ctx) != 0) _exit(98);
            int result = xds_open(ctx, "private", O_RDONLY, 0, &file);
            _exit(-result);
        }
        int status = 0;
        waitpid(child, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    };
    EXPECT_EQ(open_as(1000), 0);
    EXPECT_EQ(open_as(1001), EACCES);
}

}  // namespace
}  // namespace fabric::xds
