#include "packaging/probe/rpc_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <random>

#include "tests/unit/packaging/fake_server.h"

// libtirpc 1.3.3 forgets the verifier (400 bytes at most) of a reply that it then rejects.
extern "C" const char* __lsan_default_suppressions() { return "leak:libtirpc.so"; }

namespace fabric::probe {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr milliseconds patience{20'000};  // never waited for when the code is right
constexpr milliseconds soon{300};         // for the tests that must run into it

class RpcClientTest : public testing::Test {
  protected:
    static void SetUpTestSuite() { std::signal(SIGPIPE, SIG_IGN); }

    static Result<RpcClient> connect(const FakeServer& server, Program program, milliseconds timeout) {
        return RpcClient::connect({"127.0.0.1", server.port()}, program, timeout);
    }
    static Status null_call(const FakeServer& server, milliseconds timeout = patience) {
        Result<RpcClient> client = connect(server, nfs_v3, timeout);
        return client.ok() ? client->null_call() : client.status();
    }
    static Result<ExportList> exports(const FakeServer& server, milliseconds timeout = patience) {
        Result<RpcClient> client = connect(server, mount_v3, timeout);
        if (!client.ok()) return client.status();
        return client->exports();
    }
    // A server that answers every call with these bytes behind the reply header.
    static FakeServer::Handler results(std::string bytes) {
        return [bytes](int fd, const Call& call) { return FakeServer::send(fd, record(success(call.xid) + bytes)); };
    }
};

TEST_F(RpcClientTest, NullCallNamesProgramVersionAndProcedure) {
    Call seen{};
    FakeServer server([&](int fd, const Call& call) {
        seen = call;
        return FakeServer::send(fd, record(success(call.xid)));
    });
    Status status = null_call(server);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(seen.program, 100003U);
    EXPECT_EQ(seen.version, 3U);
    EXPECT_EQ(seen.procedure, 0U);
    EXPECT_EQ(seen.arguments, "");
}

TEST_F(RpcClientTest, ReadsTheExportList) {
    Words list;
    list.word(1).string("/data").word(1).string("10.0.0.0/8").word(1).string("*").word(0);
    list.word(1).string("/a b").word(0).word(0);
    FakeServer server(results(list.bytes()));
    Result<ExportList> read = exports(server);
    ASSERT_TRUE(read.ok()) << read.status().message();
    ASSERT_EQ(read->exports.size(), 2U);
    EXPECT_EQ(read->exports[0].path, "/data");
    EXPECT_THAT(read->exports[0].groups, ElementsAre("10.0.0.0/8", "*"));
    EXPECT_EQ(read->exports[1].path, "/a b");
    EXPECT_TRUE(read->exports[1].groups.empty());
    EXPECT_FALSE(read->truncated);
}

TEST_F(RpcClientTest, AsksRpcbindForAPort) {
    std::string arguments;
    FakeServer server([&](int fd, const Call& call) {
        arguments = call.arguments;
        return FakeServer::send(fd, record(success(call.xid) + Words().word(20048).bytes()));
    });
    Result<RpcClient> client = connect(server, rpcbind_v2, patience);
    ASSERT_TRUE(client.ok());
    Result<uint16_t> port = client->registered_port(mount_v3);
    ASSERT_TRUE(port.ok()) << port.status().message();
    EXPECT_EQ(*port, 20048);
    EXPECT_EQ(arguments, Words().word(100005).word(3).word(6).word(0).bytes());
}

TEST_F(RpcClientTest, PortAbove65535IsRefused) {
    FakeServer server(results(Words().word(70000).bytes()));
    Result<RpcClient> client = connect(server, rpcbind_v2, patience);
    ASSERT_TRUE(client.ok());
    EXPECT_EQ(client->registered_port(mount_v3).status().code(), Code::corrupt);
}

// RFC 7530 section 15.2: a COMPOUND of PUTROOTFH (24); NFS4ERR_MINOR_VERS_MISMATCH is 10021.
TEST_F(RpcClientTest, AsksForMinorVersions) {
    FakeServer server([&](int fd, const Call& call) {
        uint32_t minor = static_cast<unsigned char>(call.arguments.at(7));
        EXPECT_EQ(call.arguments, Words().word(0).word(minor).word(1).word(24).bytes());
        return FakeServer::send(
            fd, record(success(call.xid) + Words().word(minor == 1 ? 10071 : 10021).word(0).word(0).bytes()));
    });
    Result<RpcClient> client = connect(server, nfs_v4, patience);
    ASSERT_TRUE(client.ok());
    EXPECT_TRUE(*client->speaks_minor_version(1));
    EXPECT_FALSE(*client->speaks_minor_version(2));
}

TEST_F(RpcClientTest, RefusedConnectionSaysThatNothingListens) {
    uint16_t port = 0;
    {
        FakeServer gone([](int, const Call&) { return false; });
        port = gone.port();
    }
    Status status = RpcClient::connect({"127.0.0.1", port}, nfs_v3, patience).status();
    EXPECT_EQ(status.code(), Code::unavailable);
    EXPECT_THAT(status.message(), HasSubstr("nothing listens on 127.0.0.1 port " + std::to_string(port)));
}

TEST_F(RpcClientTest, UnknownHostIsNamed) {
    Status status = RpcClient::connect({"no-such-host.invalid", 1}, nfs_v3, patience).status();
    EXPECT_THAT(status.message(), HasSubstr("no-such-host.invalid"));
}

TEST_F(RpcClientTest, OtherVersionsAreNamed) {
    FakeServer server([](int fd, const Call& call) {  // PROG_MISMATCH, 4 to 4
        return FakeServer::send(
            fd, record(Words().word(call.xid).word(1).word(0).word(0).word(0).word(2).word(4).word(4).bytes()));
    });
    Status status = null_call(server);
    EXPECT_EQ(status.code(), Code::unavailable);
    EXPECT_THAT(status.message(), HasSubstr("only 4 to 4"));
}

TEST_F(RpcClientTest, UnavailableProgramIsSaid) {
    FakeServer server([](int fd, const Call& call) {  // PROG_UNAVAIL
        return FakeServer::send(fd, record(Words().word(call.xid).word(1).word(0).word(0).word(0).word(1).bytes()));
    });
    EXPECT_THAT(null_call(server).message(), HasSubstr("does not have this program"));
}

TEST_F(RpcClientTest, SilenceTimesOut) {
    FakeServer server([](int fd, const Call&) {
        FakeServer::wait_for_close(fd);
        return false;
    });
    EXPECT_EQ(null_call(server, soon).code(), Code::timeout);
}

TEST_F(RpcClientTest, HalfARecordTimesOut) {
    FakeServer server([](int fd, const Call& call) {
        std::string whole = record(success(call.xid));
        FakeServer::send(fd, whole.substr(0, whole.size() / 2));
        FakeServer::wait_for_close(fd);
        return false;
    });
    EXPECT_EQ(null_call(server, soon).code(), Code::timeout);
}

TEST_F(RpcClientTest, ClosedConnectionIsSaid) {
    FakeServer server([](int, const Call&) { return false; });
    Status status = null_call(server);
    EXPECT_EQ(status.code(), Code::unavailable);
    EXPECT_THAT(status.message(), HasSubstr("closed the connection"));
}

TEST_F(RpcClientTest, ResetInMidReplyIsAnError) {
    FakeServer server([](int fd, const Call& call) {
        FakeServer::send(fd, record(success(call.xid)).substr(0, 6));
        linger reset{1, 0};
        ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        return false;
    });
    EXPECT_FALSE(null_call(server).ok());
}

// What never ends must not outlast the deadline: replies to other calls, a byte now and then.
TEST_F(RpcClientTest, EndlessRepliesToOtherCallsTimeOut) {
    FakeServer server([](int fd, const Call& call) {
        while (FakeServer::send(fd, record(success(call.xid + 1)))) {
        }
        return false;
    });
    EXPECT_EQ(null_call(server, soon).code(), Code::timeout);
}

// libtirpc alone takes an empty fragment for a good reply.
TEST_F(RpcClientTest, EmptyFragmentsAreNoReply) {
    FakeServer server([](int fd, const Call&) {
        while (FakeServer::send(fd, std::string(4096, '\0'))) {
        }
        return false;
    });
    EXPECT_FALSE(null_call(server, soon).ok());
    EXPECT_FALSE(exports(server, soon).ok());
}

TEST_F(RpcClientTest, DrippingBytesTimeOut) {
    FakeServer server([](int fd, const Call& call) {
        std::string body = Words().word(0x80000000U | 4000).bytes() + Words().word(call.xid).bytes();
        for (char byte : body + std::string(4000, '\0')) {
            if (!FakeServer::send(fd, std::string(1, byte))) return false;
            std::this_thread::sleep_for(milliseconds(20));  // the pace of the hostile server is the test
        }
        return false;
    });
    EXPECT_EQ(null_call(server, soon).code(), Code::timeout);
}

TEST_F(RpcClientTest, HugeVerifierIsRefused) {
    FakeServer server([](int fd, const Call& call) {
        return FakeServer::send(
            fd, record(Words().word(call.xid).word(1).word(0).word(0).word(0xffffffffU).word(0).bytes()));
    });
    EXPECT_FALSE(null_call(server, soon).ok());
}

TEST_F(RpcClientTest, HugePathLengthIsRefusedBeforeItIsAllocated) {
    for (uint32_t length : {1025U, 0x7fffffffU, 0xffffffffU}) {
        FakeServer server(results(Words().word(1).word(length).bytes() + std::string(4096, 'x')));
        EXPECT_EQ(exports(server).status().code(), Code::corrupt) << length;
    }
}

TEST_F(RpcClientTest, HugeGroupLengthIsRefused) {
    FakeServer server(results(Words().word(1).string("/x").word(1).word(256).bytes() + std::string(4096, 'x')));
    EXPECT_EQ(exports(server).status().code(), Code::corrupt);
}

// Sends fragments of this unit until the client has had enough.
FakeServer::Handler endless(std::string head, std::string unit) {
    return [head, unit](int fd, const Call& call) {
        std::string many;
        while (many.size() < 65536) many += unit;
        FakeServer::send(fd, Words().word((success(call.xid) + head).size()).bytes() + success(call.xid) + head);
        while (FakeServer::send(fd, Words().word(many.size()).bytes() + many)) {
        }
        return false;
    };
}

TEST_F(RpcClientTest, EndlessExportListIsCut) {
    FakeServer server(endless("", Words().word(1).string("/export").word(0).bytes()));
    Result<ExportList> list = exports(server);
    ASSERT_TRUE(list.ok()) << list.status().message();
    EXPECT_TRUE(list->truncated);
    EXPECT_EQ(list->exports.size(), max_exports);
}

TEST_F(RpcClientTest, EndlessGroupListIsCut) {
    FakeServer server(endless(Words().word(1).string("/export").bytes(), Words().word(1).string("10.0.0.1").bytes()));
    Result<ExportList> list = exports(server);
    ASSERT_TRUE(list.ok()) << list.status().message();
    EXPECT_TRUE(list->truncated);
    ASSERT_EQ(list->exports.size(), 1U);
    EXPECT_EQ(list->exports[0].groups.size(), max_groups);
}

// Random bytes, and real replies with random damage: an error or a list within bounds, never a crash or a hang.
TEST_F(RpcClientTest, JunkNeverCrashesOrHangs) {
    std::mt19937 random(20240607);
    Words list;
    for (int i = 0; i < 5; ++i) list.word(1).string("/export" + std::to_string(i)).word(1).string("*").word(0);
    list.word(0);
    FakeServer server([&](int fd, const Call& call) {
        std::string reply =
            random() % 4 == 0 ? std::string(random() % 512, '\0') : record(success(call.xid) + list.bytes());
        size_t damage = reply.empty() ? 0 : 1 + random() % (reply.size() < 100 ? reply.size() : 8);
        for (size_t i = 0; i < damage; ++i) reply[random() % reply.size()] = static_cast<char>(random());
        FakeServer::send(fd, reply);
        ::shutdown(fd, SHUT_WR);
        FakeServer::wait_for_close(fd);
        return false;
    });
    for (int i = 0; i < 500; ++i) {
        Result<ExportList> read = exports(server, milliseconds(2000));
        EXPECT_LE(read.ok() ? read->exports.size() : 0, 200U);
    }
}

}  // namespace
}  // namespace fabric::probe
