#include "burstbuffer/pool/registry.h"

namespace fabric::pool {
namespace {

constexpr int tries = 16;

Status refused(int error, std::string message) { return {Code::invalid, error, std::move(message)}; }

}  // namespace

Status Registry::init(const ClusterRecord& cluster) {
    std::string value = encode(cluster);
    Result<ClusterRecord> right = decode<ClusterRecord>({keys_.cluster(), value, 1, 1, 1, 0});
    if (!right.ok()) return refused(EINVAL, right.status().message());
    etcd::Txn txn{{etcd::Compare::absent(keys_.cluster())},
                  {etcd::Put{keys_.cluster(), value, 0}},
                  {etcd::Range{keys_.cluster(), {}, 0, 0}}};
    Result<etcd::Reply> reply = client_.call(txn, limit_);
    if (!reply.ok()) return reply.status();
    if (reply->succeeded) return {};
    return refused(EEXIST, "there is a cluster at " + keys_.prefix() + " already");
}

Result<View> Registry::view() {
    std::string all = keys_.prefix() + "/";
    Result<etcd::Listing> listing = client_.list({all, etcd::end_of_prefix(all), 0, 0}, limit_);
    if (!listing.ok()) return listing.status();
    return view_of(keys_, listing->keys, listing->revision);
}

Status Registry::join(const std::string& name, double weight, const std::string& rack) {
    return change(name, [&](const View&, NodeRecord& record) {
        record = {NodeRecord::State::in, weight, rack};
        return Status();
    });
}

Status Registry::drain(const std::string& name) {
    return change(name, [&](const View& view, NodeRecord& record) {
        if (!view.nodes.contains(name)) return refused(ENOENT, "node " + name + " is not registered");
        if (record.state == NodeRecord::State::out) return refused(EINVAL, "node " + name + " is out already");
        record.state = NodeRecord::State::draining;
        return Status();
    });
}

Status Registry::leave(const std::string& name, Force force) {
    return change(name, [&](const View& view, NodeRecord& record) {
        if (!view.nodes.contains(name)) return refused(ENOENT, "node " + name + " is not registered");
        Verdict verdict = without(view, name);
        if (!verdict.safe && force == Force::no) {
            return refused(EBUSY, "node " + name + " cannot leave without loss: " + verdict.reasons.front());
        }
        record.state = NodeRecord::State::out;
        return Status();
    });
}

Status Registry::change(const std::string& name, const Change& change) {
    if (!is_name(name)) return refused(EINVAL, "'" + name + "' is no name of a node");
    for (int round = 0; round < tries; ++round) {
        Result<View> view = this->view();
        if (!view.ok()) return view.status();
        if (!view->cluster) {
            std::string why = view->problems.empty() ? "'fabricctl cluster init' makes one" : view->problems.front();
            return refused(ENOENT, "there is no cluster at " + keys_.prefix() + ": " + why);
        }
        auto there = view->nodes.find(name);
        NodeRecord record = there == view->nodes.end() ? NodeRecord() : there->second.record;
        FABRIC_RETURN_IF_ERROR(change(*view, record));
        std::string value = encode(record);
        if (Result<NodeRecord> right = decode<NodeRecord>({keys_.node(name), value, 1, 1, 1, 0}); !right.ok()) {
            return refused(EINVAL, right.status().message());
        }
        etcd::Revision modified = there == view->nodes.end() ? 0 : there->second.modified;
        etcd::Txn txn{
            {etcd::Compare::modified_at(keys_.node(name), modified)}, {etcd::Put{keys_.node(name), value, 0}}, {}};
        Result<etcd::Reply> reply = client_.call(txn, limit_);
        if (!reply.ok()) return reply.status();
        if (reply->succeeded) return {};
    }
    return {Code::unavailable, EAGAIN,
            "node " + name + ": its record is changed by others again and again, or cannot be read"};
}

}  // namespace fabric::pool
