#include "burstbuffer/fabricd/gateway.h"

#include "burstbuffer/control/client.h"
#include "burstbuffer/node/request.h"

namespace fabric::xds::fabricd {

using control::Json;

Result<Json> Gateway::ask(const Json& request) const {
    Result<control::Client> client = control::Client::connect(socket_);
    Result<Json> answer = client.ok() ? client->ask(request) : Result<Json>(client.status());
    if (answer.ok()) return answer;
    return Status(Code::io, EIO, "the gateway of gateway.control may hold newer bytes: " + answer.status().message());
}

Result<bool> Gateway::holds_something() {
    Result<Json> answer = ask({{"order", "settle"}});
    if (!answer.ok()) return answer.status();
    return answer->value("undrained", true);
}

Status Gateway::settle(const fs::FileId& file) {
    return ask({{"order", "settle"}, {"file", node::hexadecimal(file)}}).status();
}

}  // namespace fabric::xds::fabricd
