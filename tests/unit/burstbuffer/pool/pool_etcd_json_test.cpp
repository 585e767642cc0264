// What is said to etcd, byte for byte, and what of its answers is believed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "burstbuffer/pool/etcd/base64.h"
#include "burstbuffer/pool/etcd/json.h"

namespace fabric::etcd {
namespace {

using testing::HasSubstr;

// RFC 4648 §10.
TEST(Base64, HasTheVectorsOfItsRfc) {
    const std::pair<const char*, const char*> vectors[] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
    };
    for (auto [bytes, text] : vectors) {
        EXPECT_EQ(to_base64(bytes), text);
        EXPECT_EQ(from_base64(text), bytes);
    }
    std::string all;
    for (int one = 0; one < 256; ++one) all += static_cast<char>(one);
    EXPECT_EQ(from_base64(to_base64(all)), all);
}

TEST(Base64, RefusesWhatIsNone) {
    for (const char* text : {"Z", "Zg", "Zg=", "Zh==", "Zm9=", "Z===", "====", "Zm 9", "Zg==Zg==", "Zm9v\n", "Zm-v"}) {
        EXPECT_EQ(from_base64(text), std::nullopt) << text;
    }
}

TEST(Prefix, EndsBehindAllOfItsKeys) {
    EXPECT_EQ(end_of_prefix("/a/"), "/a0");
    EXPECT_EQ(end_of_prefix("a\xff\xff"), "b");
    EXPECT_EQ(end_of_prefix(""), std::string(1, '\0'));
}

TEST(Call, HasKeysInBase64AndNumbersAsText) {
    Txn txn;
    txn.when = {Compare::absent("k"), Compare::modified_at("m", int64_t{1} << 60)};
    txn.then = {Put{"k", "v", 7}, Delete{"d", ""}};
    txn.otherwise = {Range{"k", "", 0, 0}};
    Call call = to_call(txn);
    EXPECT_STREQ(call.path, "/v3/kv/txn");
    EXPECT_EQ(call.body, R"({"compare":[{"create_revision":"0","key":"aw==","result":"EQUAL","target":"CREATE"},)"
                         R"({"key":"bQ==","mod_revision":"1152921504606846976","result":"EQUAL","target":"MOD"}],)"
                         R"("failure":[{"request_range":{"key":"aw=="}}],)"
                         R"("success":[{"request_put":{"key":"aw==","lease":"7","value":"dg=="}},)"
                         R"({"request_delete_range":{"key":"ZA=="}}]})");
    EXPECT_EQ(to_call(Range{"a", "b", 3, 9}).body, R"({"key":"YQ==","limit":"3","range_end":"Yg==","revision":"9"})");
    EXPECT_EQ(to_call(Grant{20}).body, R"({"TTL":"20"})");
    EXPECT_EQ(watch_body({"a", "b", 0, 0}, 12),
              R"({"create_request":{"key":"YQ==","progress_notify":true,"range_end":"Yg==","start_revision":"12"}})");
}

TEST(Call, SaysWhatMustNotBeDoneTwice) {
    EXPECT_FALSE(changes(Range{"a", "", 0, 0}));
    EXPECT_FALSE(changes(KeepAlive{1}));
    EXPECT_TRUE(changes(Put{"a", "", 0}));
    EXPECT_TRUE(changes(Grant{1}));
    EXPECT_FALSE(changes(Txn{{}, {Range{"a", "", 0, 0}}, {}}));
    EXPECT_TRUE(changes(Txn{{}, {}, {Delete{"a", ""}}}));
}

constexpr const char* range_answer =
    R"({"header":{"cluster_id":"14841639068965178418","member_id":"10276657743932975437","revision":"12","raft_term":"2"},)"
    R"("kvs":[{"key":"YQ==","create_revision":"5","mod_revision":"9","version":"2","value":"djE=","lease":"77"},)"
    R"({"key":"YWI=","create_revision":"6","mod_revision":"6","version":"1"}],"more":true,"count":"3"})";

TEST(Reply, OfARange) {
    Result<Reply> reply = parse_reply(Range{"a", "b", 0, 0}, range_answer);
    ASSERT_TRUE(reply.ok()) << reply.status().message();
    EXPECT_EQ(reply->revision, 12);
    EXPECT_TRUE(reply->found.at(0).more);
    EXPECT_EQ(reply->found.at(0).keys, (std::vector<KeyValue>{{"a", "v1", 5, 9, 2, 77}, {"ab", "", 6, 6, 1, 0}}));
}

TEST(Reply, OfATransactionThatFoundSomethingElse) {
    Txn txn{{Compare::absent("a")}, {Put{"a", "x", 0}}, {Range{"a", "", 0, 0}, Range{"c", "", 0, 0}}};
    Result<Reply> reply = parse_reply(
        txn, R"({"header":{"revision":"3"},"responses":[{"response_range":{"header":{"revision":"3"},"kvs":[)"
             R"({"key":"YQ==","create_revision":"2","mod_revision":"2","version":"1","value":"dg=="}],"count":"1"}},)"
             R"({"response_range":{"header":{"revision":"3"}}}]})");
    ASSERT_TRUE(reply.ok()) << reply.status().message();
    EXPECT_FALSE(reply->succeeded);
    ASSERT_EQ(reply->found.size(), 2U);
    EXPECT_EQ(reply->found[0].keys.at(0).value, "v");
    EXPECT_TRUE(reply->found[1].keys.empty());
}

TEST(Reply, OfALeaseThatIsGoneHasNoTime) {
    Result<Reply> reply = parse_reply(KeepAlive{9}, R"({"result":{"header":{"revision":"3"},"ID":"9"}})");
    ASSERT_TRUE(reply.ok()) << reply.status().message();
    EXPECT_EQ(reply->seconds, 0);
}

struct Junk {
    Request request;
    const char* body;
    const char* complaint;
};

TEST(Reply, RefusesJunkByName) {
    Range range{"a", "b", 0, 0};
    Txn txn{{}, {Range{"a", "", 0, 0}}, {}};
    const Junk all[] = {
        {range, "", "no JSON"},
        {range, "<html>", "no JSON"},
        {range, "[]", "no JSON object"},
        {range, "{}", "header.revision is missing"},
        {range, R"({"header":7})", "header is no object"},
        {range, R"({"header":{"revision":"x"}})", "revision is no 64-bit number"},
        {range, R"({"header":{"revision":"99999999999999999999"}})", "revision is no 64-bit number"},
        {range, R"({"header":{"revision":1.5}})", "revision is no 64-bit number"},
        {range, R"({"header":{"revision":"-1"}})", "revision is below 0"},
        {range, R"({"header":{"revision":"1"},"kvs":{}})", "kvs is no list"},
        {range, R"({"header":{"revision":"1"},"kvs":[3]})", "kvs has an entry that is no object"},
        {range, R"({"header":{"revision":"1"},"kvs":[{"key":"!"}]})", "key is not in base64"},
        {range, R"({"header":{"revision":"1"},"kvs":[{"key":"YQ==","value":5}]})", "value is not in base64"},
        {range, R"({"header":{"revision":"1"},"kvs":[{"key":"YQ=="}]})", "mod_revision is missing"},
        {range, R"({"header":{"revision":"1"},"kvs":[{"key":"YQ==","mod_revision":"1"}]})", "without its revisions"},
        {range,
         R"({"header":{"revision":"1"},"kvs":[{"key":"Yw==","mod_revision":"1","create_revision":"1","version":"1"}]})",
         "not asked for"},
        {range,
         R"({"header":{"revision":"1"},"kvs":[{"key":"YQ==","mod_revision":"1","create_revision":"1","version":"1"},)"
         R"({"key":"YQ==","mod_revision":"1","create_revision":"1","version":"1"}]})",
         "not in order"},
        {range, R"({"header":{"revision":"1"},"more":"yes"})", "more is neither"},
        {txn, R"({"header":{"revision":"1"},"succeeded":true})", "responses are not as many"},
        {txn, R"({"header":{"revision":"1"},"succeeded":true,"responses":[{}]})", "response_range is missing"},
        {txn, R"({"header":{"revision":"1"},"succeeded":true,"responses":[{"response_range":1}]})", "is no object"},
        {Grant{5}, R"({"header":{"revision":"1"},"TTL":"5"})", "ID is missing"},
        {Grant{5}, R"({"header":{"revision":"1"},"ID":"5"})", "TTL is missing"},
        {Grant{5}, R"({"header":{"revision":"1"},"ID":"5","TTL":"9223372036854775807"})", "TTL is too large"},
        {KeepAlive{5}, R"({"result":{"header":{"revision":"1"},"ID":"6","TTL":"1"}})", "another lease"},
    };
    for (const Junk& junk : all) {
        Result<Reply> reply = parse_reply(junk.request, junk.body);
        ASSERT_FALSE(reply.ok()) << junk.body;
        EXPECT_EQ(reply.status().code(), Code::corrupt) << junk.body;
        EXPECT_THAT(reply.status().message(), HasSubstr(junk.complaint)) << junk.body;
    }
}

constexpr const char* watch_answer =
    R"({"result":{"header":{"revision":"8"},"events":[{"kv":{"key":"YQ==","create_revision":"7","mod_revision":"7",)"
    R"("version":"1","value":"dg=="}},{"type":"DELETE","kv":{"key":"YQ==","mod_revision":"8"}}]}})";

TEST(Watch, HasEventsInOrder) {
    Result<WatchReply> reply = parse_watch(watch_answer);
    ASSERT_TRUE(reply.ok()) << reply.status().message();
    ASSERT_EQ(reply->events.size(), 2U);
    EXPECT_EQ(reply->events[0].kind, Event::Kind::put);
    EXPECT_EQ(reply->events[0].key, (KeyValue{"a", "v", 7, 7, 1, 0}));
    EXPECT_EQ(reply->events[1].kind, Event::Kind::removed);
    EXPECT_EQ(reply->events[1].key.mod_revision, 8);
}

TEST(Watch, SaysSinceWhenThingsAreCompacted) {
    Result<WatchReply> reply =
        parse_watch(R"({"result":{"header":{"revision":"8"},"canceled":true,"compact_revision":"5"}})");
    ASSERT_TRUE(reply.ok()) << reply.status().message();
    EXPECT_TRUE(reply->cancelled);
    EXPECT_EQ(reply->compacted, 5);
}

TEST(Watch, RefusesJunkByName) {
    const std::pair<const char*, const char*> all[] = {
        {"{}", "result is missing"},
        {R"({"result":1})", "result is no object"},
        {R"({"result":{"header":{"revision":"1"},"events":[{"type":"MOVE"}]}})", "neither PUT nor DELETE"},
        {R"({"result":{"header":{"revision":"1"},"events":[{"kv":{"key":"YQ==","mod_revision":"2"}}]}})", "above"},
        {R"({"error":{"message":"no leader"}})", "no leader"},
    };
    for (auto [line, complaint] : all) {
        Result<WatchReply> reply = parse_watch(line);
        ASSERT_FALSE(reply.ok()) << line;
        EXPECT_THAT(reply.status().message(), HasSubstr(complaint)) << line;
    }
}

TEST(Token, IsOneLineOfAHeader) {
    EXPECT_EQ(*parse_token(R"({"header":{},"token":"abc.12"})"), "abc.12");
    EXPECT_FALSE(parse_token(R"({"token":"a\r\nHost: b"})").ok());
    EXPECT_FALSE(parse_token(R"({})").ok());
}

TEST(Refusal, OfACallAndOfAStream) {
    Result<Refusal> call = parse_refusal(R"({"error":"etcdserver: x","message":"etcdserver: x","code":16})");
    ASSERT_TRUE(call.ok());
    EXPECT_EQ(call->code, 16);
    Result<Refusal> stream = parse_refusal(R"({"error":{"grpc_code":5,"http_code":404,"message":"not found"}})");
    ASSERT_TRUE(stream.ok());
    EXPECT_EQ(stream->code, 5);
    EXPECT_EQ(stream->message, "not found");
    EXPECT_FALSE(parse_refusal(R"({"message":"x","code":"99999999999"})").ok());
    EXPECT_FALSE(parse_refusal("{}").ok());
}

// What the fuzzer does, for machines without it: damaged answers give a value or a Status, and no range has keys that
// were not asked for.
TEST(Reply, SurvivesDamage) {
    std::mt19937 random(6);
    const std::string whole[] = {range_answer, watch_answer};
    for (int round = 0; round < 20'000; ++round) {
        std::string body = whole[round % 2];
        for (unsigned change = random() % 4 + 1; change > 0; --change) {
            size_t at = random() % body.size();
            if (random() % 3 == 0) {
                body.erase(at, random() % 8 + 1);
            } else {
                body[at] = random() % 2 == 0 ? static_cast<char>(random()) : "{}[],:\"0-9eE"[random() % 12];
            }
            if (body.empty()) body = "x";
        }
        Result<Reply> reply = parse_reply(Range{"a", "b", 0, 0}, body);
        if (reply.ok()) {
            for (const KeyValue& key : reply->found.at(0).keys) ASSERT_TRUE(key.key >= "a" && key.key < "b");
        } else {
            ASSERT_FALSE(reply.status().message().empty());
        }
        (void)parse_watch(body);
        (void)parse_refusal(body);
        (void)parse_token(body);
    }
}

}  // namespace
}  // namespace fabric::etcd
