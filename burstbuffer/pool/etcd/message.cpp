#include "burstbuffer/pool/etcd/message.h"

#include <algorithm>

namespace fabric::etcd {

std::string end_of_prefix(std::string prefix) {
    while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 0xff) prefix.pop_back();
    // etcd takes a single NUL as "to the last key there is".
    if (prefix.empty()) return std::string(1, '\0');
    ++prefix.back();
    return prefix;
}

namespace {

struct KeyOf {
    std::string operator()(const Range& range) const { return range.key; }
    std::string operator()(const Put& put) const { return put.key; }
    std::string operator()(const Delete& removed) const { return removed.key; }
    std::string operator()(const Txn& txn) const {
        if (!txn.when.empty()) return txn.when.front().key;
        return txn.then.empty() ? std::string() : std::visit(*this, txn.then.front());
    }
    std::string operator()(const Grant&) const { return {}; }
    std::string operator()(const KeepAlive&) const { return {}; }
    std::string operator()(const Revoke&) const { return {}; }
};

bool reads_only(const std::vector<Operation>& operations) {
    return std::ranges::all_of(operations, [](const Operation& one) { return std::holds_alternative<Range>(one); });
}

}  // namespace

std::string key_of(const Request& request) { return std::visit(KeyOf(), request); }

bool changes(const Request& request) {
    if (const Txn* txn = std::get_if<Txn>(&request)) return !reads_only(txn->then) || !reads_only(txn->otherwise);
    // A lease kept alive or revoked twice is as one that was once.
    return !std::holds_alternative<Range>(request) && !std::holds_alternative<KeepAlive>(request) &&
           !std::holds_alternative<Revoke>(request);
}

}  // namespace fabric::etcd
