// Requests and replies as etcd 3.4's gateway has them (api "/v3/..."; 64-bit numbers as strings, keys and values in
// base64, what is 0 or empty left out). Nothing here throws: what is wrong with a reply is said by name.
#pragma once

#include <string>
#include <string_view>

#include "burstbuffer/pool/etcd/message.h"
#include "common/result.h"

namespace fabric::etcd {

struct Call {
    const char* path = nullptr;  // below the endpoint
    std::string body;
};

Call to_call(const Request& request);
// What watches the range from `from` on.
std::string watch_body(const Range& range, Revision from);

// The answer to `request`. Code::corrupt: it is none; the message says what of it is wrong.
Result<Reply> parse_reply(const Request& request, std::string_view body);
Result<WatchReply> parse_watch(std::string_view line);

std::string login_body(std::string_view user, std::string_view password);
Result<std::string> parse_token(std::string_view body);

// What an answer with a failed HTTP status says.
struct Refusal {
    int code = 0;  // gRPC's
    std::string message;
};
Result<Refusal> parse_refusal(std::string_view body);

}  // namespace fabric::etcd
