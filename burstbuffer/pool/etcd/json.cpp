#include "burstbuffer/pool/etcd/json.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "burstbuffer/pool/etcd/base64.h"

namespace fabric::etcd {
namespace {

using Json = nlohmann::json;

Json range_json(const Range& range) {
    Json json{{"key", to_base64(range.key)}};
    if (!range.end.empty()) json["range_end"] = to_base64(range.end);
    if (range.limit > 0) json["limit"] = std::to_string(range.limit);
    if (range.revision > 0) json["revision"] = std::to_string(range.revision);
    return json;
}

Json put_json(const Put& put) {
    Json json{{"key", to_base64(put.key)}, {"value", to_base64(put.value)}};
    if (put.lease != 0) json["lease"] = std::to_string(put.lease);
    return json;
}

Json delete_json(const Delete& removed) {
    Json json{{"key", to_base64(removed.key)}};
    if (!removed.end.empty()) json["range_end"] = to_base64(removed.end);
    return json;
}

Json compare_json(const Compare& compare) {
    static constexpr const char* targets[] = {"VERSION", "CREATE", "MOD", "LEASE", "VALUE"};
    static constexpr const char* fields[] = {"version", "create_revision", "mod_revision", "lease", "value"};
    static constexpr const char* relations[] = {"EQUAL", "GREATER", "LESS", "NOT_EQUAL"};
    auto what = static_cast<size_t>(compare.what);
    Json json{{"key", to_base64(compare.key)},
              {"target", targets[what]},
              {"result", relations[static_cast<size_t>(compare.relation)]}};
    json[fields[what]] =
        compare.what == Compare::What::value ? to_base64(compare.value) : std::to_string(compare.number);
    return json;
}

Json operations_json(const std::vector<Operation>& operations) {
    Json list = Json::array();
    for (const Operation& one : operations) {
        if (const Range* range = std::get_if<Range>(&one)) {
            list.push_back({{"request_range", range_json(*range)}});
        } else if (const Put* put = std::get_if<Put>(&one)) {
            list.push_back({{"request_put", put_json(*put)}});
        } else {
            list.push_back({{"request_delete_range", delete_json(std::get<Delete>(one))}});
        }
    }
    return list;
}

Json txn_json(const Txn& txn) {
    Json compares = Json::array();
    for (const Compare& one : txn.when) compares.push_back(compare_json(one));
    return {{"compare", compares}, {"success", operations_json(txn.then)}, {"failure", operations_json(txn.otherwise)}};
}

Status wrong(std::string what) { return {Code::corrupt, EBADMSG, std::move(what)}; }

// Strict about types, lenient about what it does not know. The first thing wrong stays; values read after it are empty.
class Reader {
  public:
    // A name beneath `json` ("header.revision") goes into messages.
    int64_t number(const Json& json, const char* name) {
        auto found = json.find(name);
        if (found == json.end()) return 0;
        if (found->is_number_integer() && !found->is_number_unsigned()) return found->get<int64_t>();
        if (found->is_number_unsigned() && found->get<uint64_t>() <= INT64_MAX) return found->get<int64_t>();
        int64_t parsed = 0;
        if (found->is_string()) {
            const auto& text = found->get_ref<const std::string&>();
            auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
            if (error == std::errc() && end == text.data() + text.size()) return parsed;
        }
        complain(std::string(name) + " is no 64-bit number");
        return 0;
    }
    // A number that cannot be below 0.
    int64_t count(const Json& json, const char* name) {
        int64_t value = number(json, name);
        if (value < 0) complain(std::string(name) + " is below 0");
        return value;
    }
    std::string bytes(const Json& json, const char* name) {
        auto found = json.find(name);
        if (found == json.end()) return {};
        if (found->is_string()) {
            if (auto decoded = from_base64(found->get_ref<const std::string&>())) return *std::move(decoded);
        }
        complain(std::string(name) + " is not in base64");
        return {};
    }
    std::string text(const Json& json, const char* name) {
        auto found = json.find(name);
        if (found == json.end()) return {};
        if (found->is_string()) return found->get<std::string>();
        complain(std::string(name) + " is no text");
        return {};
    }
    bool flag(const Json& json, const char* name) {
        auto found = json.find(name);
        if (found == json.end()) return false;
        if (found->is_boolean()) return found->get<bool>();
        complain(std::string(name) + " is neither true nor false");
        return false;
    }
    const Json& object(const Json& json, const char* name) {
        static const Json nothing = Json::object();
        auto found = json.find(name);
        if (found == json.end()) return nothing;
        if (found->is_object()) return *found;
        complain(std::string(name) + " is no object");
        return nothing;
    }
    const Json& list(const Json& json, const char* name) {
        static const Json nothing = Json::array();
        auto found = json.find(name);
        if (found == json.end()) return nothing;
        if (!found->is_array()) {
            complain(std::string(name) + " is no list");
            return nothing;
        }
        for (const Json& one : *found) {
            if (one.is_object()) continue;
            complain(std::string(name) + " has an entry that is no object");
            return nothing;
        }
        return *found;
    }
    Revision revision(const Json& json) {
        const Json& header = object(json, "header");
        Revision value = count(header, "revision");
        // Every answer has one; etcd's first revision is 1.
        if (value == 0) complain("header.revision is missing");
        return value;
    }
    void complain(std::string what) {
        if (problem_.empty()) problem_ = std::move(what);
    }
    bool good() const { return problem_.empty(); }
    Status status() const { return problem_.empty() ? Status() : wrong(problem_); }

  private:
    std::string problem_;
};

KeyValue key_value(Reader& reader, const Json& json) {
    KeyValue key{
        reader.bytes(json, "key"),          reader.bytes(json, "value"),   reader.count(json, "create_revision"),
        reader.count(json, "mod_revision"), reader.count(json, "version"), reader.number(json, "lease")};
    if (key.key.empty()) reader.complain("key is missing");
    if (key.mod_revision == 0) reader.complain("mod_revision is missing");
    return key;
}

bool within(const Range& range, const std::string& key) {
    if (range.end.empty()) return key == range.key;
    return key >= range.key && (range.end == std::string(1, '\0') || key < range.end);
}

Found found_keys(Reader& reader, const Range& range, const Json& json) {
    Found found;
    found.more = reader.flag(json, "more");
    for (const Json& one : reader.list(json, "kvs")) {
        found.keys.push_back(key_value(reader, one));
        const KeyValue& key = found.keys.back();
        if (key.create_revision == 0 || key.version == 0) reader.complain("kvs has a key without its revisions");
        if (!within(range, key.key)) reader.complain("kvs has a key that was not asked for");
        if (found.keys.size() > 1 && found.keys[found.keys.size() - 2].key >= key.key) {
            reader.complain("kvs is not in order");
        }
        if (!reader.good()) return {};
    }
    return found;
}

void txn_reply(Reader& reader, const Txn& txn, const Json& json, Reply& reply) {
    reply.succeeded = reader.flag(json, "succeeded");
    const std::vector<Operation>& asked = reply.succeeded ? txn.then : txn.otherwise;
    const Json& responses = reader.list(json, "responses");
    if (responses.size() != asked.size()) return reader.complain("responses are not as many as operations");
    for (size_t at = 0; at < asked.size(); ++at) {
        const Range* range = std::get_if<Range>(&asked[at]);
        if (range != nullptr && !responses[at].contains("response_range")) reader.complain("response_range is missing");
        reply.found.push_back(
            range == nullptr ? Found() : found_keys(reader, *range, reader.object(responses[at], "response_range")));
    }
}

Result<Json> parse_object(std::string_view body) {
    Json json = Json::parse(body, nullptr, false);
    if (json.is_discarded()) return wrong("it is no JSON");
    if (!json.is_object()) return wrong("it is no JSON object");
    return json;
}

void lease_reply(Reader& reader, const Json& json, Reply& reply) {
    reply.lease = reader.number(json, "ID");
    reply.seconds = reader.number(json, "TTL");
    if (reply.lease == 0) reader.complain("ID is missing");
    if (reply.seconds > 1'000'000'000) reader.complain("TTL is too large");
    // etcd says 0 or -1 of a lease that there is no more.
    if (reply.seconds < 0) reply.seconds = 0;
}

}  // namespace

Call to_call(const Request& request) {
    struct Make {
        Call operator()(const Range& range) const { return {"/v3/kv/range", range_json(range).dump()}; }
        Call operator()(const Put& put) const { return {"/v3/kv/put", put_json(put).dump()}; }
        Call operator()(const Delete& one) const { return {"/v3/kv/deleterange", delete_json(one).dump()}; }
        Call operator()(const Txn& txn) const { return {"/v3/kv/txn", txn_json(txn).dump()}; }
        Call operator()(const Grant& grant) const {
            return {"/v3/lease/grant", Json{{"TTL", std::to_string(grant.seconds)}}.dump()};
        }
        Call operator()(const KeepAlive& one) const {
            return {"/v3/lease/keepalive", Json{{"ID", std::to_string(one.lease)}}.dump()};
        }
        Call operator()(const Revoke& one) const {
            return {"/v3/lease/revoke", Json{{"ID", std::to_string(one.lease)}}.dump()};
        }
    };
    return std::visit(Make(), request);
}

std::string watch_body(const Range& range, Revision from) {
    Json create = range_json({range.key, range.end, 0, 0});
    create["start_revision"] = std::to_string(from);
    // An idle watch says how far it is, so that a later resume does not ask for what is compacted long since.
    create["progress_notify"] = true;
    return Json{{"create_request", create}}.dump();
}

Result<Reply> parse_reply(const Request& request, std::string_view body) {
    Result<Json> parsed = parse_object(body);
    if (!parsed.ok()) return parsed.status();
    Reader reader;
    Reply reply;
    // What answers with a stream wraps each message.
    bool streamed = std::holds_alternative<KeepAlive>(request);
    const Json& json = streamed ? reader.object(*parsed, "result") : *parsed;
    reply.revision = reader.revision(json);
    if (const Range* range = std::get_if<Range>(&request)) {
        reply.found.push_back(found_keys(reader, *range, json));
    } else if (const Txn* txn = std::get_if<Txn>(&request)) {
        txn_reply(reader, *txn, json, reply);
    } else if (std::holds_alternative<Grant>(request) || streamed) {
        lease_reply(reader, json, reply);
        const KeepAlive* kept = std::get_if<KeepAlive>(&request);
        if (kept != nullptr && reply.lease != kept->lease) reader.complain("ID is of another lease");
        if (!streamed && reply.seconds == 0) reader.complain("TTL is missing");
    }
    if (!reader.good()) return reader.status();
    return reply;
}

Result<WatchReply> parse_watch(std::string_view line) {
    Result<Json> parsed = parse_object(line);
    if (!parsed.ok()) return parsed.status();
    Reader reader;
    if (parsed->contains("error")) {
        const Json& error = reader.object(*parsed, "error");
        return Status(Code::unavailable, EAGAIN, "the watch ended: " + reader.text(error, "message"));
    }
    if (!parsed->contains("result")) return wrong("result is missing");
    const Json& json = reader.object(*parsed, "result");
    WatchReply reply;
    reply.created = reader.flag(json, "created");
    reply.cancelled = reader.flag(json, "canceled");
    reply.compacted = reader.count(json, "compact_revision");
    reply.reason = reader.text(json, "cancel_reason");
    reply.revision = reply.cancelled ? reader.count(reader.object(json, "header"), "revision") : reader.revision(json);
    for (const Json& one : reader.list(json, "events")) {
        std::string type = reader.text(one, "type");
        if (!type.empty() && type != "PUT" && type != "DELETE") reader.complain("type is neither PUT nor DELETE");
        Event event;
        event.kind = type == "DELETE" ? Event::Kind::removed : Event::Kind::put;
        event.key = key_value(reader, reader.object(one, "kv"));
        if (event.key.mod_revision > reply.revision) reader.complain("mod_revision is above the header's revision");
        reply.events.push_back(std::move(event));
    }
    if (!reader.good()) return reader.status();
    return reply;
}

std::string login_body(std::string_view user, std::string_view password) {
    // A name or password that is not UTF-8 goes out with replacements, and is refused by etcd as a wrong one.
    return Json{{"name", user}, {"password", password}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<std::string> parse_token(std::string_view body) {
    Result<Json> parsed = parse_object(body);
    if (!parsed.ok()) return parsed.status();
    Reader reader;
    std::string token = reader.text(*parsed, "token");
    if (token.empty()) reader.complain("token is missing");
    for (char one : token) {
        // It becomes a line of an HTTP header.
        if (one <= ' ' || one > '~') reader.complain("token has characters that no token has");
    }
    if (!reader.good()) return reader.status();
    return token;
}

Result<Refusal> parse_refusal(std::string_view body) {
    Result<Json> parsed = parse_object(body);
    if (!parsed.ok()) return parsed.status();
    Reader reader;
    // A stream's refusal stands in "error", another's beside it.
    auto error = parsed->find("error");
    bool wrapped = error != parsed->end() && error->is_object();
    const Json& json = wrapped ? *error : *parsed;
    Refusal refusal;
    refusal.message = reader.text(json, "message");
    if (refusal.message.empty() && !wrapped) refusal.message = reader.text(json, "error");
    if (refusal.message.empty()) reader.complain("message is missing");
    int64_t code = reader.number(json, wrapped ? "grpc_code" : "code");
    if (code < 0 || code > 16) reader.complain("code is none of gRPC's");
    if (!reader.good()) return reader.status();
    refusal.code = static_cast<int>(code);
    return refusal;
}

}  // namespace fabric::etcd
