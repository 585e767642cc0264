#include "xds/fabricd/settings.h"

#include <yaml-cpp/yaml.h>

#include <charconv>
#include <functional>
#include <map>

#include "common/read_file.h"
#include "xds/protocol/rdma_handshake.h"

namespace fabric::xds::fabricd {
namespace {

// What reading one value came to: empty, or what is wrong with it.
using Problem = std::string;
using Take = std::function<Problem(const std::string&)>;

Take text(std::string& to) {
    return [&to](const std::string& value) {
        to = value;
        return Problem();
    };
}

template <typename T>
Take number(T& to, uint64_t least, uint64_t most) {
    return [&to, least, most](const std::string& value) -> Problem {
        uint64_t parsed = 0;
        auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
        if (error != std::errc() || end != value.data() + value.size() || parsed < least || parsed > most)
            return "expected a number from " + std::to_string(least) + " to " + std::to_string(most);
        to = static_cast<T>(parsed);
        return {};
    };
}

Take number_or_auto(unsigned& to, unsigned most) {
    return [&to, most](const std::string& value) -> Problem {
        if (value == "auto") {
            to = 0;
            return {};
        }
        Problem problem = number(to, 1, most)(value);
        return problem.empty() ? problem : problem + " or auto";
    };
}

Take bytes(size_t& to, size_t least) {
    return [&to, least](const std::string& value) -> Problem {
        uint64_t parsed = 0;
        auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
        static const std::map<std::string, unsigned> units = {{"", 0},     {"B", 0},    {"KiB", 10},
                                                              {"MiB", 20}, {"GiB", 30}, {"TiB", 40}};
        auto unit = units.find(std::string(end, value.data() + value.size()));
        if (error != std::errc() || unit == units.end() || parsed > (UINT64_MAX >> unit->second) ||
            (parsed << unit->second) < least)
            return "expected a size of at least " + std::to_string(least) + " bytes, such as 64MiB";
        to = parsed << unit->second;
        return {};
    };
}

Take direct(target::Direct& to) {
    return [&to](const std::string& value) -> Problem {
        if (value == "auto")
            to = target::Direct::automatic;
        else if (value == "always")
            to = target::Direct::always;
        else if (value == "never")
            to = target::Direct::never;
        else
            return "expected auto, always or never";
        return {};
    };
}

Take rdma(target::Rdma& to) {
    return [&to](const std::string& value) -> Problem {
        if (value == "auto")
            to = target::Rdma::automatic;
        else if (value == "required")
            to = target::Rdma::required;
        else if (value == "off")
            to = target::Rdma::off;
        else
            return "expected auto, required or off";
        return {};
    };
}

Take cluster(security::Id& to) {
    return [&to](const std::string& value) -> Problem {
        if (value.size() != 2 * to.size() || value.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos)
            return "expected 32 hexadecimal digits, the same on every node of the cluster";
        for (size_t i = 0; i < to.size(); ++i)
            to[i] = static_cast<std::byte>(std::stoul(value.substr(2 * i, 2), nullptr, 16));
        return {};
    };
}

Take huge_pages(bool& reserved) {
    return [&reserved](const std::string& value) -> Problem {
        if (value != "advised" && value != "reserved") return "expected advised or reserved";
        reserved = value == "reserved";
        return {};
    };
}

Take level(log::Level& to) {
    return [&to](const std::string& value) -> Problem {
        static const std::map<std::string, log::Level> levels = {{"debug", log::Level::debug},
                                                                 {"info", log::Level::info},
                                                                 {"warn", log::Level::warn},
                                                                 {"error", log::Level::error}};
        auto found = levels.find(value);
        if (found == levels.end()) return "expected debug, info, warn or error";
        to = found->second;
        return {};
    };
}

using Keys = std::map<std::string, Take>;

std::map<std::string, Keys> known_keys(Settings& settings) {
    target::Config& config = settings.target;
    return {{"xds",
             {{"listen", text(config.listen)},
              {"rdma", rdma(config.rdma)},
              {"rdma_queues", number(config.rdma_queues, 1, wire::max_queues)},
              {"root", text(config.root)},
              {"node", text(config.node)},
              {"lanes", number_or_auto(config.lanes, 16)},
              {"workers", number(config.workers, 1, 256)},
              {"credits", number(config.credits, 1, 4096)},
              {"connections", number(config.connections, 1, 1 << 20)},
              {"open_files", number(config.open_files, 1, 1 << 20)},
              {"bytes_in_flight", bytes(config.bytes_in_flight, 16 << 20)},
              {"connection_bytes", bytes(config.connection_bytes, 8 << 20)},
              {"huge_pages", huge_pages(config.reserved_huge_pages)},
              {"direct", direct(config.direct)},
              {"direct_from", bytes(config.direct_from, 4096)},
              {"stall_seconds", number(config.stall_seconds, 1, 86400)},
              {"drain_seconds", number(settings.drain_seconds, 0, 86400)}}},
            {"security",
             {{"key_file", text(config.key_file)},
              {"cluster", cluster(config.cluster)},
              {"anonymous_uid", number(config.anonymous_uid, 0, UINT32_MAX - 1)},
              {"anonymous_gid", number(config.anonymous_gid, 0, UINT32_MAX - 1)},
              {"agent", text(settings.agent)},
              {"ticket_seconds", number(settings.ticket_seconds, 60, 30 * 86400)},
              {"capability_seconds", number(config.capability_seconds, 60, 30 * 86400)},
              {"clock_seconds", number(config.clock_seconds, 1, 3600)}}},
            {"burst_buffer", {{"config", text(settings.burst_buffer)}}},
            {"gateway", {{"control", text(settings.gateway)}}},
            {"log", {{"level", level(settings.log_level)}}},
            {"metrics", {{"listen", text(settings.metrics)}}}};
}

std::string list_of(const Keys& keys) {
    std::string out;
    for (const auto& [key, take] : keys) out += (out.empty() ? "" : ", ") + key;
    return out;
}

Status read_section(const YAML::Node& section, const std::string& name, const Keys& keys,
                    const std::function<Status(const YAML::Node&, const std::string&)>& bad) {
    if (!section.IsMap()) return bad(section, name + ": expected keys and values");
    for (const auto& entry : section) {
        std::string key = entry.first.as<std::string>();
        auto known = keys.find(key);
        if (known == keys.end())
            return bad(entry.first, name + "." + key + ": unknown key; " + name + " has " + list_of(keys));
        if (!entry.second.IsScalar()) return bad(entry.second, name + "." + key + ": expected one value");
        Problem problem = known->second(entry.second.Scalar());
        if (!problem.empty())
            return bad(entry.second, name + "." + key + ": '" + entry.second.Scalar() + "': " + problem);
    }
    return {};
}

}  // namespace

Result<Settings> parse_settings(const std::string& content, const std::string& name) {
    auto bad = [&](const YAML::Node& node, const std::string& what) {
        return Status::config(name + ":" + std::to_string(node.Mark().line + 1) + ": " + what);
    };
    Settings settings;
    // yaml-cpp reports by exceptions; none leaves this function.
    try {
        YAML::Node document = YAML::Load(content);
        if (!document.IsMap())
            return Status::config(name + ":1: expected sections xds, security, burst_buffer, gateway, log, metrics");
        std::map<std::string, Keys> sections = known_keys(settings);
        for (const auto& entry : document) {
            std::string section = entry.first.as<std::string>();
            auto known = sections.find(section);
            if (known == sections.end())
                return bad(entry.first,
                           section + ": unknown section; there are burst_buffer, gateway, log, metrics, security, xds");
            FABRIC_RETURN_IF_ERROR(read_section(entry.second, section, known->second, bad));
        }
    } catch (const YAML::Exception& error) {
        return Status::config(name + ":" + std::to_string(error.mark.line + 1) + ": " + error.msg);
    }
    if (settings.target.root.empty()) return Status::config(name + ": xds.root is missing: the directory to serve");
    if (!settings.agent.empty() && settings.target.key_file.empty())
        return Status::config(name + ": security.agent is set, but security.key_file is not: an agent needs the keys");
    if (settings.target.connection_bytes > settings.target.bytes_in_flight)
        return Status::config(name + ": xds.connection_bytes is larger than xds.bytes_in_flight");
    return settings;
}

Result<Settings> load_settings(const std::string& path) {
    Result<std::string> text = read_file(path, "configuration file");
    return text.ok() ? parse_settings(*text, path) : text.status();
}

}  // namespace fabric::xds::fabricd
