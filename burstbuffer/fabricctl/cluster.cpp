#include "burstbuffer/fabricctl/cluster.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "burstbuffer/control/client.h"
#include "burstbuffer/fabricctl/exit.h"
#include "burstbuffer/pool/registry.h"
#include "common/read_file.h"

namespace fabric::ctl {
namespace {

using Json = nlohmann::json;
using pool::NodeRecord;

struct Asked {
    etcd::Options etcd;
    std::string password_file;
    std::string prefix = "/fabric/default";
    unsigned timeout = 10;  // seconds
    bool json = false;

    std::string node;
    double weight = 1;
    std::string rack;
    bool force = false;
    int64_t chunk_size = 1 << 20;
    int64_t replicas = 1;
    std::string socket = "/run/fabric/ctl.sock";
};

const char* word(NodeRecord::State state) {
    return state == NodeRecord::State::in ? "in" : state == NodeRecord::State::draining ? "draining" : "out";
}
const char* word(pool::MapNode::State state) {
    return state == pool::MapNode::State::up ? "up" : state == pool::MapNode::State::draining ? "draining" : "down";
}

std::string text(const Json& value) {
    return value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// For people "key=value" lines, with a line for each entry of a list; or one line of JSON.
void print(const Asked& asked, const Json& answer) {
    if (asked.json) {
        fmt::print("{}\n", answer.dump(-1, ' ', false, Json::error_handler_t::replace));
        return;
    }
    for (const auto& [key, value] : answer.items()) {
        if (!value.is_array()) {
            fmt::print("{}={}\n", key, text(value));
            continue;
        }
        for (const Json& one : value) {
            std::string line;
            if (one.is_object()) {
                for (const auto& [field, content] : one.items()) line += " " + field + "=" + text(content);
            } else {
                line = " " + text(one);
            }
            fmt::print("{}:{}\n", key, line);
        }
    }
}

int complain(const Status& status) {
    fmt::print(stderr, "fabricctl: {}\n", status.message());
    return status.code() == Code::invalid ? missing : status.code() == Code::config ? wrong_usage : no_node;
}

int report(const Asked& asked, const Status& status) {
    if (!status.ok()) return complain(status);
    print(asked, {{"ok", true}});
    return all_well;
}

Json status_json(const pool::View& view) {
    Json nodes = Json::array();
    for (const auto& [name, node] : view.nodes) {
        auto member = view.members.find(name);
        bool running = member != view.members.end();
        Json one{{"name", name},
                 {"state", word(node.record.state)},
                 {"weight", node.record.weight},
                 {"rack", node.record.rack},
                 {"running", running}};
        if (running) {
            one["addresses"] = member->second.record.addresses;
            one["version"] = member->second.record.version;
        }
        nodes.push_back(one);
    }
    Json answer{{"nodes", nodes},
                {"running", view.members.size()},
                {"owned", view.owned.size()},
                {"map_epoch", view.map ? view.map->epoch : 0},
                {"problems", view.problems}};
    if (view.cluster) {
        answer["uuid"] = view.cluster->uuid;
        answer["chunk_size"] = view.cluster->chunk_size;
        answer["replicas"] = view.cluster->replicas;
    }
    return answer;
}

int no_cluster(const Asked& asked, const pool::View& view) {
    for (const std::string& problem : view.problems) fmt::print(stderr, "fabricctl: {}\n", problem);
    fmt::print(stderr, "fabricctl: there is no cluster at {}: 'fabricctl cluster init' makes one\n", asked.prefix);
    return missing;
}

int show_status(const Asked& asked, pool::Registry& registry) {
    Result<pool::View> view = registry.view();
    if (!view.ok()) return complain(view.status());
    if (!view->cluster) return no_cluster(asked, *view);
    print(asked, status_json(*view));
    return view->problems.empty() ? all_well : missing;
}

int show_map(const Asked& asked, pool::Registry& registry) {
    Result<pool::View> view = registry.view();
    if (!view.ok()) return complain(view.status());
    if (!view->cluster) return no_cluster(asked, *view);
    if (!view->map) {
        fmt::print(stderr, "fabricctl: the cluster at {} has no map: no node of it has run yet{}{}\n", asked.prefix,
                   view->problems.empty() ? "" : ", or: ", view->problems.empty() ? "" : view->problems.front());
        return missing;
    }
    Json nodes = Json::array();
    for (const pool::MapNode& node : view->map->nodes) {
        nodes.push_back({{"name", node.name},
                         {"state", word(node.state)},
                         {"weight", node.weight},
                         {"rack", node.rack},
                         {"addresses", node.addresses}});
    }
    print(asked, {{"epoch", view->map->epoch},
                  {"chunk_size", view->map->chunk_size},
                  {"replicas", view->map->replicas},
                  {"nodes", nodes}});
    return all_well;
}

int show_verdict(const Asked& asked, const pool::Verdict& verdict) {
    print(asked, {{"ok", verdict.safe}, {"lost", verdict.reasons}, {"note", verdict.notes}});
    return verdict.safe ? all_well : missing;
}

int check_node(const Asked& asked, pool::Registry& registry) {
    Result<pool::View> view = registry.view();
    if (!view.ok()) return complain(view.status());
    if (!view->cluster) return no_cluster(asked, *view);
    if (!view->nodes.contains(asked.node)) {
        return complain({Code::invalid, ENOENT, "node " + asked.node + " is not registered at " + asked.prefix});
    }
    return show_verdict(asked, pool::without(*view, asked.node));
}

// What lies on one disk only its node knows.
int check_disk(const Asked& asked) {
    Result<control::Client> client = control::Client::connect(asked.socket);
    if (!client.ok()) return complain(client.status());
    Result<Json> answer = client->ask({{"order", "status"}}, [](const Json&) {});
    if (!answer.ok()) return complain(answer.status());
    Json disks = answer->value("disks", Json::array());
    for (const Json& disk : disks) {
        if (disk.value("folder", std::string()) != asked.node) continue;
        pool::Verdict verdict;
        if (uint64_t dirty = disk.value("dirty_records", uint64_t{0}); dirty > 0) {
            verdict.safe = false;
            verdict.reasons.push_back(asked.node + ": " + std::to_string(dirty) +
                                      " records are not drained yet: 'fabricctl flush' drains them");
        }
        if (disks.size() == 1) verdict.notes.push_back("it is the node's only disk");
        return show_verdict(asked, verdict);
    }
    return complain({Code::invalid, ENOENT, "the node at " + asked.socket + " has no disk " + asked.node});
}

int init(const Asked& asked, pool::Registry& registry) {
    Result<std::string> uuid = read_file("/proc/sys/kernel/random/uuid", "a random UUID");
    if (!uuid.ok()) return complain(uuid.status());
    if (uuid->ends_with('\n')) uuid->pop_back();
    Status status = registry.init({*uuid, asked.chunk_size, asked.replicas});
    if (!status.ok()) return complain(status);
    print(asked, {{"ok", true}, {"uuid", *uuid}});
    return all_well;
}

bool is_disk(const std::string& target) { return target.starts_with('/'); }

using Order = int (*)(const Asked&, pool::Registry&);

int run(const Asked& given, Order order) {
    Asked asked = given;
    if (!asked.password_file.empty()) {
        Result<std::string> password = read_file(asked.password_file, "password file");
        if (!password.ok()) return complain(password.status());
        asked.etcd.password = password->substr(0, password->find_first_of("\r\n"));
    }
    Result<std::unique_ptr<etcd::Client>> client = etcd::Client::make(asked.etcd);
    if (!client.ok()) return complain(client.status());
    pool::Registry registry(**client, pool::Keys(asked.prefix), std::chrono::seconds(asked.timeout));
    return order(asked, registry);
}

// The option for etcd's members.
CLI::Option* add_etcd_options(CLI::App& sub, Asked& asked) {
    CLI::Option* endpoint = sub.add_option("--endpoint", asked.etcd.endpoints,
                                           "an etcd member, http://HOST:PORT or https://HOST:PORT; given once for each")
                                ->allow_extra_args(false);
    sub.add_option("--prefix", asked.prefix, "the cluster's keys at etcd are below it")
        ->capture_default_str()
        ->check([](const std::string& prefix) {
            bool right = prefix.size() > 1 && prefix.front() == '/' && prefix.back() != '/';
            return right ? std::string() : "expected a path such as /fabric/c1";
        });
    sub.add_option("--user", asked.etcd.user, "etcd's user");
    sub.add_option("--password-file", asked.password_file, "its first line is the user's password");
    sub.add_option("--ca", asked.etcd.ca, "the authorities that etcd's certificate is believed from (PEM)");
    sub.add_option("--certificate", asked.etcd.certificate, "shown to etcd (PEM)");
    sub.add_option("--key", asked.etcd.key, "the certificate's key (PEM)");
    sub.add_option("--timeout", asked.timeout, "seconds that etcd may take")
        ->check(CLI::Range(1, 3600))
        ->capture_default_str();
    return endpoint;
}

}  // namespace

void add_cluster(CLI::App& app, Action& action) {
    struct Command {
        const char* name;
        const char* what;
        Order order;
        bool takes_node;
    };
    static constexpr Command commands[] = {
        {"init", "Makes a cluster at etcd; once.", init, false},
        {"join", "Registers a node; it gets data when it runs. A node that is in gets this weight and rack.",
         [](const Asked& asked, pool::Registry& registry) {
             return report(asked, registry.join(asked.node, asked.weight, asked.rack));
         },
         true},
        {"leave", "Takes a node out for good. Refused while something would be lost.",
         [](const Asked& asked, pool::Registry& registry) {
             auto force = asked.force ? pool::Registry::Force::yes : pool::Registry::Force::no;
             return report(asked, registry.leave(asked.node, force));
         },
         true},
        {"drain-node", "A node gets nothing new, and drains what it has.",
         [](const Asked& asked, pool::Registry& registry) { return report(asked, registry.drain(asked.node)); }, true},
        {"status", "The cluster's nodes: registered, running, and what is wrong at etcd.", show_status, false},
        {"map", "The placement map and its epoch.", show_map, false},
        {"check", "Whether a node, or a disk of the node at --socket, can be taken away now without loss.", check_node,
         true},
    };
    CLI::App* cluster = app.add_subcommand("cluster", "The nodes that are one cache, as etcd has them.");
    cluster->require_subcommand(1);
    for (const Command& command : commands) {
        auto asked = std::make_shared<Asked>();
        CLI::App* sub = cluster->add_subcommand(
            command.name,
            std::string(command.what) +
                "\nExit status: 0 all is as asked, 1 it is not (it is said what), 8 etcd or the node could "
                "not be asked, 16 wrong usage.");
        std::string name = command.name;
        CLI::Option* endpoint = add_etcd_options(*sub, *asked);
        if (name != "check") endpoint->required();
        sub->add_flag("--json", asked->json, "print the answer as a line of JSON");
        if (command.takes_node) {
            bool any = name == "check";
            sub->add_option(any ? "NODE|DISK" : "NODE", asked->node,
                            any ? "a node's name, or the absolute path of a disk's folder" : "the node's name")
                ->required();
            if (any)
                sub->add_option("--socket", asked->socket, "the disk's node's control socket")->capture_default_str();
        }
        if (name == "init") {
            sub->add_option("--chunk-size", asked->chunk_size, "bytes, a power of two")->capture_default_str();
            sub->add_option("--replicas", asked->replicas, "nodes that have what is written back")
                ->capture_default_str();
        } else if (name == "join") {
            sub->add_option("--weight", asked->weight, "its share of the data, beside the others'")
                ->capture_default_str();
            sub->add_option("--rack", asked->rack, "where it stands: replicas go to different ones");
        } else if (name == "leave") {
            sub->add_flag("--force", asked->force, "even if something is lost");
        }
        sub->callback([&action, asked, order = command.order] {
            action = [asked, order] {
                return order == check_node && is_disk(asked->node) ? check_disk(*asked) : run(*asked, order);
            };
        });
    }
}

}  // namespace fabric::ctl
