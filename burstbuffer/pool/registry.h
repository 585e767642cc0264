// What an administrator changes of a cluster: its record, and the nodes that are registered.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "burstbuffer/pool/etcd/client.h"
#include "burstbuffer/pool/records.h"
#include "burstbuffer/pool/view.h"

namespace fabric::pool {

// Errors name cluster, node and cause. Code::invalid: it cannot be done as things are; others come from etcd.
class Registry {
  public:
    // `client` outlives it. `limit`: for each call.
    Registry(etcd::Client& client, Keys keys, std::chrono::milliseconds limit)
        : client_(client), keys_(std::move(keys)), limit_(limit) {}

    // EEXIST: there is a cluster already.
    Status init(const ClusterRecord& cluster);
    // Registers a node, or one that was out anew; one that is in or draining becomes in, with this weight and rack.
    Status join(const std::string& name, double weight, const std::string& rack);
    Status drain(const std::string& name);
    // EBUSY: something would be lost; `force` does it all the same.
    enum class Force { no, yes };
    Status leave(const std::string& name, Force force);
    Result<View> view();

  private:
    using Change = std::function<Status(const View& view, NodeRecord& record)>;
    // Compare and swap of a registered node's record, again while others change it.
    Status change(const std::string& name, const Change& change);

    etcd::Client& client_;
    const Keys keys_;
    const std::chrono::milliseconds limit_;
};

}  // namespace fabric::pool
