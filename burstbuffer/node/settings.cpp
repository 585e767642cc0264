#include "burstbuffer/node/settings.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>

#include "common/read_file.h"

namespace fabric::node {
namespace {

// What is wrong with a value; empty: nothing.
using Problem = std::string;
using Keys = std::map<std::string, std::function<Problem(const std::string&)>>;

template <typename T>
auto number(T& to, uint64_t least, uint64_t most) {
    return [&to, least, most](const std::string& value) -> Problem {
        uint64_t parsed = 0;
        auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
        if (error != std::errc() || end != value.data() + value.size() || parsed < least || parsed > most) {
            return "expected a number from " + std::to_string(least) + " to " + std::to_string(most);
        }
        to = static_cast<T>(parsed);
        return {};
    };
}

template <typename T>
auto bytes(T& to, uint64_t least) {
    return [&to, least](const std::string& value) -> Problem {
        static const std::map<std::string, unsigned> units = {{"", 0},     {"B", 0},    {"KiB", 10},
                                                              {"MiB", 20}, {"GiB", 30}, {"TiB", 40}};
        uint64_t parsed = 0;
        auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
        auto unit = units.find(std::string(end, value.data() + value.size()));
        if (error != std::errc() || unit == units.end() || parsed > (UINT64_MAX >> unit->second) ||
            (parsed << unit->second) < least) {
            return "expected a size of at least " + std::to_string(least) + " bytes, such as 64MiB";
        }
        to = parsed << unit->second;
        return {};
    };
}

auto milliseconds(std::chrono::milliseconds& to, uint64_t most) {
    return [&to, most](const std::string& value) -> Problem {
        uint64_t parsed = 0;
        Problem problem = number(parsed, 0, most)(value);
        if (problem.empty()) to = std::chrono::milliseconds(parsed);
        return problem;
    };
}

auto path(std::string& to) {
    return [&to](const std::string& value) -> Problem {
        if (!value.starts_with('/')) return "expected an absolute path";
        to = value;
        return {};
    };
}

auto weight(double& to) {
    return [&to](const std::string& value) -> Problem {
        char* end = nullptr;
        double parsed = std::strtod(value.c_str(), &end);
        if (value.empty() || *end != '\0' || !std::isfinite(parsed) || parsed <= 0) return "expected a number above 0";
        to = parsed;
        return {};
    };
}

auto share(double& to) {
    return [&to](const std::string& value) -> Problem {
        Problem problem = number(to, 1, 100)(value);
        if (problem.empty()) to /= 100;
        return problem;
    };
}

auto pattern(std::vector<std::string>& to) {
    return [&to](const std::string& value) -> Problem {
        if (!value.starts_with('/')) return "expected an absolute path, such as /srv/data/checkpoints/**";
        if (std::ranges::find(to, value) != to.end()) return "it is there twice";
        to.push_back(value);
        return {};
    };
}

// Copies on other nodes are the pool's.
Problem one_replica(const std::string& value) {
    if (value == "1") return {};
    return "expected 1: this node's own disk; more need a pool of nodes, which there is not";
}

auto seconds(std::chrono::milliseconds& to, uint64_t most) {
    return [&to, most](const std::string& value) -> Problem {
        uint64_t parsed = 0;
        Problem problem = number(parsed, 1, most)(value);
        if (problem.empty()) to = std::chrono::seconds(parsed);
        return problem;
    };
}

auto at_end(writeback::Options::AtEnd& to) {
    return [&to](const std::string& value) -> Problem {
        if (value != "drain" && value != "keep") return "expected drain or keep";
        to = value == "drain" ? writeback::Options::AtEnd::drain : writeback::Options::AtEnd::keep;
        return {};
    };
}

auto yes_or_no(bool& to) {
    return [&to](const std::string& value) -> Problem {
        if (value != "true" && value != "false") return "expected true or false";
        to = value == "true";
        return {};
    };
}

class Parser {
  public:
    explicit Parser(std::string name) : name_(std::move(name)) {}

    Result<Settings> parse(const std::string& text) {
        YAML::Node document = YAML::Load(text);
        if (!document.IsMap())
            return Status::config(name_ +
                                  ":1: expected sections cache, control, datasets, disks, node, staging, writeback");
        for (const auto& entry : document) FABRIC_RETURN_IF_ERROR(section(entry.first, entry.second));
        if (settings_.disks.empty()) {
            return Status::config(name_ + ": disks is missing: a list of folders, one on each local disk");
        }
        if (settings_.cache.eviction.low > settings_.cache.eviction.high) {
            return Status::config(name_ + ": cache.low_watermark is above cache.high_watermark");
        }
        return settings_;
    }

  private:
    Status bad(const YAML::Node& node, const std::string& what) const {
        return Status::config(name_ + ":" + std::to_string(node.Mark().line + 1) + ": " + what);
    }

    Status section(const YAML::Node& key, const YAML::Node& value) {
        std::string section = key.as<std::string>();
        cache::Cache::Options& cache = settings_.cache;
        if (section == "disks") return disks(value);
        if (section == "control") return keys(value, section, {{"socket", path(settings_.socket)}});
        if (section == "node") return keys(value, section, {{"self_mounted", yes_or_no(settings_.self_mounted)}});
        if (section == "staging") return keys(value, section, {{"workers", number(settings_.stage_workers, 1, 256)}});
        if (section == "cache") {
            return keys(value, section,
                        {{"memory", bytes(cache.memory, 0)},
                         {"buffer_memory", bytes(settings_.buffer_memory, 64 << 20)},
                         {"in_flight", bytes(cache.flights.bytes, 4 << 20)},
                         {"remembered", number(cache.remembered, 1024, uint64_t{1} << 32)},
                         {"read_ahead", number(cache.read_ahead, 0, 64)},
                         {"high_watermark", share(cache.eviction.high)},
                         {"low_watermark", share(cache.eviction.low)},
                         {"settle_ms", milliseconds(cache.settle, 60'000)},
                         {"writers", number(cache.flights.writers, 1, 64)},
                         {"backing_threads", number(settings_.backing_threads, 1, 1024)},
                         {"lanes", number(settings_.lanes, 0, 64)}});
        }
        if (section == "writeback") return write_back(value);
        if (section == "datasets") return datasets(value);
        return bad(key,
                   section + ": unknown section; there are cache, control, datasets, disks, node, staging, writeback");
    }

    Status write_back(const YAML::Node& section) {
        writeback::Options& options = settings_.write_back;
        FABRIC_RETURN_IF_ERROR(keys(section, "writeback",
                                    {{"replicas", one_replica},
                                     {"max_dirty", bytes(options.max_dirty, 1 << 20)},
                                     {"max_age", seconds(options.max_age, 86'400)},
                                     {"drain_rate", bytes(options.drain_rate, 0)},
                                     {"drain_share", share(options.share)},
                                     {"shutdown", at_end(options.at_end)}},
                                    {{"paths", pattern(options.paths)}}));
        if (options.paths.empty()) return bad(section, "writeback.paths is missing: a list of paths");
        return {};
    }

    Status datasets(const YAML::Node& list) {
        if (!list.IsSequence()) return bad(list, "datasets: expected a list; each begins with \"- path:\"");
        for (const YAML::Node& one : list) {
            cache::Dataset dataset;
            std::vector<std::string> paths;
            FABRIC_RETURN_IF_ERROR(
                keys(one, "datasets", {{"path", pattern(paths)}, {"quota", bytes(dataset.quota, 1 << 20)}}));
            if (paths.empty() || dataset.quota == 0) return bad(one, "datasets: a dataset needs a path and a quota");
            dataset.path = paths.front();
            for (const cache::Dataset& other : settings_.datasets) {
                if (other.path == dataset.path) return bad(one, "datasets: " + dataset.path + " is there twice");
            }
            settings_.datasets.push_back(dataset);
        }
        return {};
    }

    Status disks(const YAML::Node& list) {
        if (!list.IsSequence()) return bad(list, "disks: expected a list; each begins with \"- folder:\"");
        std::set<std::string> folders;
        for (const YAML::Node& one : list) {
            disks::DiskOptions disk;
            disk.spare_segments = 1;
            FABRIC_RETURN_IF_ERROR(keys(one, "disks",
                                        {{"folder", path(disk.folder)},
                                         {"weight", weight(disk.weight)},
                                         {"capacity", bytes(disk.capacity, 64 << 20)},
                                         {"reserve", bytes(disk.reserve, 0)},
                                         {"segment", bytes(disk.segment_size, 1 << 20)}}));
            if (disk.folder.empty()) return bad(one, "disks: a disk without a folder");
            if (!folders.insert(disk.folder).second) return bad(one, "disks: " + disk.folder + " is there twice");
            settings_.disks.push_back(disk);
        }
        return {};
    }

    // `lists`: keys whose values are lists, which are taken one by one.
    Status keys(const YAML::Node& section, const std::string& name, const Keys& known, const Keys& lists = {}) const {
        if (!section.IsMap()) return bad(section, name + ": expected keys and values");
        for (const auto& entry : section) {
            std::string key = entry.first.as<std::string>();
            if (auto list = lists.find(key); list != lists.end()) {
                FABRIC_RETURN_IF_ERROR(each(entry.second, name + "." + key, list->second));
                continue;
            }
            auto found = known.find(key);
            if (found == known.end()) {
                std::string list;
                for (const auto& [one, take] : known) list += (list.empty() ? "" : ", ") + one;
                for (const auto& [one, take] : lists) list += ", " + one;
                return bad(entry.first, name + "." + key + ": unknown key; " + name + " has " + list);
            }
            if (!entry.second.IsScalar()) return bad(entry.second, name + "." + key + ": expected one value");
            Problem problem = found->second(entry.second.Scalar());
            if (!problem.empty()) {
                return bad(entry.second, name + "." + key + ": '" + entry.second.Scalar() + "': " + problem);
            }
        }
        return {};
    }

    Status each(const YAML::Node& list, const std::string& name, const Keys::mapped_type& take) const {
        if (!list.IsSequence()) return bad(list, name + ": expected a list");
        for (const YAML::Node& one : list) {
            if (!one.IsScalar()) return bad(one, name + ": expected a value");
            Problem problem = take(one.Scalar());
            if (!problem.empty()) return bad(one, name + ": '" + one.Scalar() + "': " + problem);
        }
        return {};
    }

    const std::string name_;
    Settings settings_;
};

}  // namespace

Result<Settings> parse_settings(const std::string& text, const std::string& name) {
    // yaml-cpp reports by exceptions; none leaves this function.
    try {
        return Parser(name).parse(text);
    } catch (const YAML::Exception& error) {
        return Status::config(name + ":" + std::to_string(error.mark.line + 1) + ": " + error.msg);
    }
}

Result<Settings> load_settings(const std::string& path) {
    Result<std::string> text = read_file(path, "configuration file");
    return text.ok() ? parse_settings(*text, path) : text.status();
}

}  // namespace fabric::node
